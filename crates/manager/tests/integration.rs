//! Macroflows in virtual time. One program for all files: each further program would compile the generic code of the
//! manager again.

mod agent;
mod aging;
mod careful_resume;
mod changes;
mod choice;
mod common;
mod controller;
mod feedback;
mod first_windows;
mod protocol;
mod segregation;
mod sharing;
