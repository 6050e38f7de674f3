package app

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/audit"
	"github.com/berth-scheduler/berth/pkg/state"
)

// partOf is the label by which the manifests mark Berth's own pods and those of its stores.
const partOf = "app.kubernetes.io/part-of"

// ownPods warns of Berth's own pods that are placed by Berth: while Berth is down, no scheduler would place them, and
// a cluster that was shut down would not come back. Which scheduler names are Berth's follows from the pods that it
// has bound.
func ownPods(pods []corev1.Pod) []audit.Finding {
	// The schedulers that are Berth's: those of pods that have one of its attempts.
	berths := map[string]bool{}
	for i := range pods {
		if state.NewPod(&pods[i]).Attempt() != "" {
			berths[pods[i].Spec.SchedulerName] = true
		}
	}
	var found []audit.Finding
	for i := range pods {
		p := &pods[i]
		if p.Labels[partOf] != "berth" || !berths[p.Spec.SchedulerName] {
			continue
		}
		found = append(found, audit.Finding{
			Severity: audit.Warning, Invariant: "bootstrap", Objects: []string{"pod/" + p.Namespace + "/" + p.Name},
			Message: fmt.Sprintf("is part of Berth but its schedulerName %q is served by Berth: "+
				"it cannot be placed while Berth is down",
				p.Spec.SchedulerName),
		})
	}
	return found
}
