//! Pageyard host.
