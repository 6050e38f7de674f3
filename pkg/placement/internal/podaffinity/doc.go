// Package podaffinity holds InterPodAffinity: required and preferred affinity and anti-affinity between pods, the
// pod's own and that of other pods against it. Source: plugins/interpodaffinity.
//
// Start reading at Party (a pod as terms see it) and Term (a term whose namespaces are known), then Filter, which
// counts matching pods per domain, and Scorer.
package podaffinity
