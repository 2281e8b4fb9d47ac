//! Macroflows in virtual time. They are one program, as each of many would compile the manager again.

mod agent;
mod aging;
mod careful_resume;
mod careful_resume_calls;
mod changes;
mod choice;
mod common;
mod controller;
mod feedback;
mod first_windows;
mod protocol;
mod segregation;
mod sharing;
mod turns;
