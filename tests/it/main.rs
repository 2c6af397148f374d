//! foxlaunch seen from outside, and the rules that its source keeps.

mod chaos;
mod doctor;
mod events;
mod fuzz_corpus;
mod hanging;
mod hostile;
mod house_rules;
mod launching;
mod library;
mod logs;
mod ls_stop;
mod metrics;
mod network;
mod output;
mod progress;
mod readme;
mod refusals;
mod restarting;
mod resuming;
mod secrets;
mod session;
mod source;
mod streams;
mod torchrun;
mod training;
mod watching;
