// Package gates lists the feature gates of Kubernetes 1.36 that matter to scheduling, and how Berth treats each.
//
// Berth has no feature gates of its own. An API server drops the fields of a feature that is off there, or refuses
// them, so an object that has the field shows that the feature is on: the object is the gate. Every rule that reads
// such a field evaluates it wherever it finds it, and so do all parts that judge the same (placement, binder,
// descheduler, audit). What no field of an object shows is in these lists.
//
// Start reading at Gate. The leading queue reads which features its API server has on, and reports those that are
// not followed (Unfollowed) in its log and in `berth status`. A refused feature also shows in the condition of each
// pod that needs it.
//
// A test in test/conformance reads upstream's source, and fails for a gate that upstream's scheduler reads and that
// is missing here, and for a gate here that upstream does not have.
package gates
