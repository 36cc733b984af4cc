//! What a launch must fit.

use sim::Kind;

use crate::case::Case;

#[test]
fn what_a_launch_must_fit_is_checked() {
    let mut case = Case::new(64, "");
    case.bounds = ".maxntid 32, 1, 1";
    let finding = case.finding();
    assert_eq!(finding.kind, Kind::Launch);
    assert!(finding.message.contains("64 threads are above the entry's .maxntid of 32"), "{finding}");
    case.bounds = ".reqnctapercluster 2, 1, 1";
    assert!(case.finding().message.contains("is not the entry's .reqnctapercluster"));
}
