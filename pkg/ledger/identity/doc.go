// Package identity is about which ledger this is: the Kubernetes cluster that it belongs to, and its generation. A
// store that was replaced or restored from a backup lacks promises that members have acted on; the leader of the queues
// then begins a new Generation.
package identity
