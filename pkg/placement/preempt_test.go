package placement_test

import (
	configv1 "k8s.io/kube-scheduler/config/v1"
)

func preemptionArgs(percentage, absolute int32) *configv1.DefaultPreemptionArgs {
	return &configv1.DefaultPreemptionArgs{
		MinCandidateNodesPercentage: &percentage, MinCandidateNodesAbsolute: &absolute,
	}
}
