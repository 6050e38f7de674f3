package descheduling

import "github.com/berth-scheduler/berth/pkg/descheduling/policy"

// exception names why upstream's answer is not ours, or nothing.
func exception(strategy string, drawn tree, w *world, theirs answer) string {
	if len(theirs.twice) > 0 && limited(drawn) {
		// A pod with two owners, or one that violates both kinds of node affinity, is evicted
		// twice in one pass, and counts twice against the limits. Ours counts pods.
		switch strategy {
		case policy.PluginDuplicates, policy.PluginNodeAffinity:
			return "asked twice"
		}
	}
	return ""
}

// limited: the policy limits evictions of a cycle.
func limited(drawn tree) bool {
	for _, key := range []string{"maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace",
		"maxNoOfPodsToEvictTotal"} {
		if _, ok := drawn[key]; ok {
			return true
		}
	}
	return false
}
