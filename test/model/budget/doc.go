// Package budget models how several components that evict share a disruption budget (pkg/ledger: T10), on top of an
// eviction API that takes four writes.
//
// Two components claim victims from the budget's document in the ledger, on arbitrarily late facts about budget and
// pods. The binder marks a claim and sends the eviction; it may lose the answer, look at the pod, and send again. The
// API server looks at the pod, takes from the budget's status, and deletes the pod; between the two writes anything
// may happen, and preconditions are checked last, when the budget is spent already. The disruption controller counts
// pods as far as it has read, leaves out those that the status lists as about to be deleted, and after two minutes
// stops waiting for them. All of that is Kubernetes 1.36: pkg/registry/core/pod/storage/eviction.go and
// pkg/controller/disruption/disruption.go.
//
// Invariants: no more pods are down than the budget allows, and all claimed evictions are possible.
//
// Start reading at world (the state), then model.next (the possible steps).
package budget
