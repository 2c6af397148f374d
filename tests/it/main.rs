//! foxlaunch seen from outside, and the rules that its source keeps.

mod house_rules;
mod readme;
mod source;
