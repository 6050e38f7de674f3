// Package guard says which guards of the ledger a placement needs: what keeps hard rules
// about pods on other nodes true when several shards place pods at the same time.
//
// A node's document keeps two shards from using the same room. It says nothing about a
// zone: two pods that must not share one may go to two nodes of it, each by a shard that
// does not see the other. For that there are guards, two keys for each rule and domain:
//
//   - A rule (Term) is registered before a pod that carries it is placed for the first
//     time; every placement compares the registry, so all shards know the rule from then on.
//   - A carrier, a pod that has the rule, compares both guards of the domain it goes to and
//     puts the carriers' guard.
//   - A matcher, a pod that somebody else's rule selects, puts the matchers' guard and, of
//     anti-affinity, compares the carriers' guard. Matchers alone never collide.
//
// So of a carrier and a matcher, or of two carriers, that have not counted each other, one
// fails, and decides again having counted. What is compared must be what was counted:
// ledger.View.Guard gives that revision, and view.View.Uncounted says where the count may be
// short. Spread needs its matchers' guard too: two pods with different constraints that
// select each other could otherwise each go where only the other's absence made room.
// test/model/guards explores all of this, and that nothing of it can be left out.
//
// A minimum over domains, which hard spread is measured against, needs no guard: placements
// elsewhere only raise it. But a decision that counted a pod elsewhere is right only if that
// pod is placed: Needs.CountsBatch. A pod whose place is only held raises no minimum: a decision, or a promotion,
// has to be right without it too. Affinity is satisfied by pods that are bound (and pinned,
// so that nobody evicts them meanwhile), never by reservations that may be taken back; so
// only the first pod of its kind needs a guard, one for the whole cluster.
//
// Rules over hostnames need no guard either, unless two nodes have the same hostname.
//
// What is guaranteed: a placement keeps the rules among all pods placed before it in the
// order of the ledger. Pods that left may still be counted by a shard that has not read of
// it. Labels of pods that run, of namespaces and of nodes are facts, not promises: two
// shards may apply a change of them at different moments, and what they place meanwhile is
// right for one of the two orders in which the change and the placements can be told.
// A namespace whose labels are not known yet makes a pod wait that a selector might concern.
//
// Start reading at Concern.
package guard
