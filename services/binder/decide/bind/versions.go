package bind

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// maxVersions is how many replaced versions of an unbound pod are kept as evidence for the refresh path. A pod that
// changes more often than that between decision and bind is fenced instead of refreshed.
const maxVersions = 8

// version holds the requests of one version of a pod. It is kept instead of the pod, because many pods wait for long.
type version struct{ resourceVersion, hash uint64 }

// versions holds the versions of unbound pods that newer facts have replaced, oldest first, by UID.
type versions map[string][]version

// add records a version that newer facts have replaced, and drops the oldest one if there are too many.
func (v versions) add(p *state.Pod) {
	kept := append(v[p.UID], version{p.ResourceVersion, p.PlacementHash()})
	if len(kept) > maxVersions {
		kept = slices.Clone(kept[1:])
	}
	v[p.UID] = kept
}

// hashAt returns what a pod requested at exactly that resourceVersion.
func (v versions) hashAt(uid string, rv uint64) (hash uint64, ok bool) {
	for _, kept := range v[uid] {
		if kept.resourceVersion == rv {
			return kept.hash, true
		}
	}
	return 0, false
}
