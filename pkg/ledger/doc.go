// Package ledger records Berth's promises: reservations on nodes that the API server does not know about yet. It
// keeps them in such a way that any number of active shards can never contradict each other.
//
// This package has the documents, which are plain values, and the Store that keeps them. Start reading at Entry and
// NodeDoc, which hold the promises. The other packages, from the bottom up:
//
//   - codec encodes documents; ledgerpb is the stored form.
//   - registry is about rules that reach beyond one node: terms, their guards, and T11.
//   - roster is about members and the partitions that they own (T13).
//   - identity is which ledger this is: its generation, and the Kubernetes cluster that it belongs to.
//   - pause pauses the descheduler.
//   - replica holds a member's copy of the ledger (View), fed by Follow.
//   - invariant states what must never be observed.
//   - txns has the transactions, one file each (t1_place.go and so on): pure functions from documents to documents,
//     and from documents to a Txn.
//
// The implementations of Store, etcd and mem, pass one contract suite, ledgertest. docs/ledger.md has the tables. The
// simulation in ledgertest shows the whole protocol at work, and shows that it breaks when a rule is left out.
//
// The rules on which everything rests:
//
//  1. The ledger holds only what the API server does not know. Entries are keyed by pod UID. A bound pod is
//     counted from the API view, and counted once if it is in both.
//  2. Each node UID has one document, which is changed by compare-and-set on its mod revision. Of all nodes that
//     ever had one name, one document at a time accepts placements (Incarnation). A document that does not exist
//     has the high-waters of the Floor.
//  3. Every removal of an entry that a fact or a finished fence accounts for raises the document's high-water
//     (hw). (Only entries that were never bindable, such as holds that are displaced or aborted, are removed
//     without that.) A shard may use a node only if its applied progress has reached the high-water.
//  4. Reservations never expire by lease. Only a fact (bound, deleted) or a finished fence releases a committed
//     one.
//  5. The bind carries UID and resourceVersion preconditions and the attempt token. A binder binds only a pod that
//     its own watch shows Committed with that token. The fence is: mark Fencing, really change the pod, look at
//     the returned nodeName, release.
//  6. Hold, victim claims and budget claims commit together, before anything is evicted. A pod that may be evicted
//     is marked before the eviction is sent.
//  7. Evictions go through the eviction subresource and are never retried blindly.
//  8. Messages are hints. A member that needs an entry given back writes Wanted into it.
//  9. A deadline is "unchanged for T on my own monotonic clock".
//  10. An unknown outcome is not a failure: resubmit the identical transaction.
//  11. A hard rule about pods on other nodes is registered before the first pod that carries it is placed, and
//     every placement compares the registry. Placements that the rule relates in one domain meet at its guards. A
//     placement compares the guard revisions whose placements it has counted, and no newer ones (package guard
//     documents which placement compares and puts which guard).
package ledger
