//! The tests of behaviour under random schedules.

pageyard_check::behaviours!(pageyard_check::shuttle_platform::RandomOrder);
