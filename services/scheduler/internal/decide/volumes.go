package decide

import (
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// beyond says why a pod cannot be placed whatever the nodes are: somebody would have to bind
// its volumes first, or keep another shard from giving them to another pod. Empty for nearly
// all pods. Placing one all the same would start it without its volumes, or break the
// promise that it has one alone.
func (c *Core) beyond(pod *state.Pod, profile *placement.Profile) string {
	if len(pod.Template.Spec.Volumes) == 0 {
		return ""
	}
	objects := c.view.Snapshot()
	if claims := profile.UnboundClaims(pod, objects); len(claims) > 0 {
		return fmt.Sprintf("volumes of claims %s have to be bound to the node first, which this version does not do",
			strings.Join(claims, ", "))
	}
	if uids := profile.ExclusiveClaims(pod, objects); len(uids) > 0 {
		return "the pod has a claim that one pod at a time may use (ReadWriteOncePod), " +
			"which this version does not keep for one"
	}
	return ""
}
