// Package guard determines which guards of the ledger a placement needs. Guards keep hard rules about pods on other
// nodes true when several shards place pods at the same time.
//
// A node's document keeps two shards from using the same room. It does not protect a zone: two pods that must not
// share one could be placed on two of its nodes, each by a shard that does not see the other pod. Guards prevent
// that. There are two keys for each rule and domain:
//
//   - A rule (Term) is registered before a pod that carries it is placed for the first time. Every placement
//     compares the registry, so all shards know the rule from then on.
//   - A carrier, a pod that has the rule, compares both guards of the domain in which it is placed and puts the
//     carriers' guard.
//   - A matcher, a pod that another pod's rule selects, puts the matchers' guard and, for anti-affinity, compares
//     the carriers' guard. Matchers alone never conflict.
//
// So when a carrier and a matcher, or two carriers, have not counted each other, one of the placements fails, and
// is decided again with the other one counted. A placement must compare the revision whose placements it has
// counted: replica.Terms.Guard returns that revision, and view.View.Uncounted reports where the count may be
// incomplete. Spread needs its matchers' guard too: two pods with different constraints that select each other
// could otherwise each be placed where only the absence of the other pod permits it. test/model/guards explores all
// of this, and shows that no part of it can be left out.
//
// A minimum over domains, against which hard spread is measured, needs no guard: placements in other domains only
// raise it. But a decision that counted a pod in another domain is right only if that pod is placed:
// Needs.CountsBatch. A pod whose place is only held raises no minimum: a decision, or a promotion, must be right
// without it too. Affinity is satisfied by pods that are bound (and pinned, so that they are not evicted in the
// meantime), never by reservations that may be taken back. So only the first pod of its kind needs a guard, one for
// the whole cluster.
//
// Rules over hostnames need no guard either, unless two nodes have the same hostname.
//
// The guarantee is: a placement keeps the rules among all pods placed before it in the order of the ledger. Pods
// that left may still be counted by a shard that has not read of it. Labels of running pods, of namespaces and of
// nodes are facts, not promises: two shards may apply a change of them at different moments. What they place in
// between is right for one of the two possible orders of the change and the placements. If the labels of a
// namespace are not known yet, a pod that a selector might concern waits.
//
// Start reading at Concern.
package guard
