// Package ledger holds WHAT IS PROMISED: reservations on nodes that the API server does
// not know yet, kept so that any number of active shards can never contradict each other.
//
// Start reading at Entry and NodeDoc (what is promised), then the transactions, one file
// each (t1_place.go and so on: pure functions from documents to documents, and from
// documents to a Txn), then View (what a member knows, fed by Follow) and Store (how a Txn
// is carried out; etcd and mem pass one contract suite, ledgertest). check.go says what
// must never be seen. term.go, guard.go and t11_register.go are about rules that reach beyond
// one node. claim.go, plan.go, exclusive.go and change.go are what the transactions about
// victims, budgets, volumes and pools are made of. docs/ledger.md has the tables. ledgertest's
// simulation shows the whole protocol at work, and that it breaks when a rule is left out.
//
// The rules everything rests on:
//
//  1. Only what the API server does not know: entries are keyed by pod UID; a bound pod is
//     counted from the API view, and once if it is in both.
//  2. One document per node UID, changed by compare on its mod revision; of the nodes that ever had
//     one name, one document at a time takes placements (Incarnation). A document that does not
//     exist has the high-waters of the Floor.
//  3. Every removal of an entry raises the document's high-water (hw); a shard may use a
//     node only if its applied progress has reached it.
//  4. Reservations never expire by lease. Only a fact (bound, deleted) or a finished fence
//     releases a committed one.
//  5. The bind carries UID and resourceVersion preconditions and the attempt token; a
//     binder binds only what its own watch shows Committed with that token. The fence is:
//     mark Fencing, really change the pod, look at the returned nodeName, release.
//  6. Hold, victim claims and budget claims commit together, before anything is evicted; and
//     what may be evicted is marked, before the eviction is sent.
//  7. Evictions go through the eviction subresource and are never retried blindly.
//  8. Messages are hints. Who needs an entry back writes Wanted into it.
//  9. A deadline is "unchanged for T on my own monotonic clock".
//  10. Unknown is not failed: resubmit the identical transaction.
//  11. A hard rule about pods on other nodes is registered before the first pod that carries
//     it is placed, and every placement compares the registry. Placements that the rule
//     relates in one domain meet at its guards; what a placement compares of them is what
//     it has counted, no newer (package guard says who compares and puts what).
package ledger
