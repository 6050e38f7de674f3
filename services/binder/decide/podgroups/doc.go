// Package podgroups decides which PodGroups get the condition PodGroupScheduled, and with which value.
//
// The condition is True once a member has a reservation that can be bound, or is bound: the members of a gang get their
// reservations together or not at all, so that one proves that there are enough. It never goes back, as upstream's.
// Before that, it is False with the message of the last decision that a member cannot be placed.
//
// What is True follows from the facts and the ledger alone, so that a binder that takes over needs no message. What is
// False is a hint from the log of decisions; a binder that misses it leaves it to the next attempt.
//
// Source: updatePodGroupCondition in pkg/scheduler/schedule_one_podgroup.go.
//
// Start reading at Writer.Advance.
package podgroups
