//! foxlaunch seen from outside, and the rules that its source keeps.

mod cgroup;
mod chaos;
mod container;
mod doctor;
mod faults;
mod hanging;
mod house_rules;
mod job_control;
mod launching;
mod library;
mod ls_stop;
mod output;
mod placing;
mod progress;
mod pytorch;
mod readme;
mod refusals;
mod restarting;
mod resuming;
mod session;
mod source;
mod streams;
mod torchrun;
mod training;
mod watching;
