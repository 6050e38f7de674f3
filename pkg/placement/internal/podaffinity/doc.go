// Package podaffinity holds InterPodAffinity: required and preferred affinity and anti-affinity between pods, the
// pod's own and that of other pods against it. Source: plugins/interpodaffinity.
//
// A term selects pods by labels and namespaces, and relates them to nodes by a topology key: two nodes with the
// same value of that label are in one domain. Four lists of terms matter to a waiting pod P, two of them on both
// sides:
//
//   - P's required affinity: P needs a domain with a pod that matches all of its terms, or is the first of its kind.
//   - P's required anti-affinity, and that of a pod on a node against P: they must not share a domain.
//   - P's preferred terms, and those of pods on nodes that match P: weights for and against a domain.
//   - Required affinity of pods on nodes that P matches: they would like P near, and add a weight
//     (hardPodAffinityWeight).
//
// Example: P must not share a host with pods app=web, and a pod Q (app=web) runs on node n1, which is in zone z.
// The term's key is the hostname: the domain n1 is excluded, every other node in z is not. If the key were the
// zone, all nodes of z would be.
//
// Labels of very large pods are cut before they are stored. A selector then has two answers, MustMatch and
// MayMatch, and each rule takes the one that cannot break a promise: a pod attracts only if it must match, and
// repels if it may match.
//
// Start reading at Party (a pod as terms see it) and Term (a term whose namespaces are known), then Filter, which
// counts matching pods per domain, and Scorer. The engine computes both from tallies.
package podaffinity
