//! What a modelled machine is: the figures of its file, checked.
