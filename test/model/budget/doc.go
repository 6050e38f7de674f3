// Package budget models how several components that evict share a disruption budget
// (pkg/ledger: T10), on top of an eviction API that takes four writes.
//
// Two components claim victims from the budget's document in the ledger, on facts about
// budget and pods as late as they like. The binder marks a claim and sends the eviction; it
// may lose the answer, look at the pod, and send again. The API server looks at the pod,
// takes from the budget's status, and deletes the pod; between the two, anything may happen,
// and preconditions are looked at last, when the budget is spent already. The disruption
// controller counts pods as far as it has read, leaves out those that the status says are
// about to go, and after two minutes stops waiting for them. All of that is Kubernetes 1.36:
// pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption/disruption.go.
//
// What must hold: no more pods are down than the budget allows, and all evictions that are
// claimed can be made.
//
// Start reading at world (what there is), then model.next (what can happen).
package budget
