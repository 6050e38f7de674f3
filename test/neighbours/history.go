package neighbours

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// selectedNode is the annotation with which a scheduler names the node for a claim's volume.
const selectedNode = "volume.kubernetes.io/selected-node"

// history is what happened to pods, nodes and claims, as the API server's watches report it. Versions are comparable
// between kinds, because all objects are in one etcd. It does not know which scheduler runs. For one goroutine.
type history struct {
	pods   map[types.UID]*podLife
	nodes  map[types.UID]*nodeLife
	claims map[types.UID]*claimLife
	// most is the largest number of elastic nodes at any time.
	most int
}

// podLife is what happened to a pod. Versions are 0 for what did not happen.
type podLife struct {
	name, app, node      string
	created, bound, gone time.Time
	boundAt, leavingAt   uint64
	ended                bool
	claims               []string
	nominated            promises
}

// promises are the nodes that were named to an object, one after the other.
type promises []promise

// promise is a node's name, from one version until another; until is 0 as long as it lasts.
type promise struct {
	node        string
	from, until uint64
}

// name notes the name that an object has at a version; empty for none.
func (p *promises) name(node string, at uint64) {
	if n := len(*p); n > 0 && (*p)[n-1].until == 0 {
		last := &(*p)[n-1]
		if last.node == node {
			return
		}
		last.until = at
	}
	if node != "" {
		*p = append(*p, promise{node: node, from: at})
	}
}

// held reports whether a node was promised at a version.
func (p promises) held(node string, at uint64) bool {
	return slices.ContainsFunc(p, func(one promise) bool {
		return one.node == node && one.from < at && (one.until == 0 || one.until > at)
	})
}

// nodeLife is what happened to a node.
type nodeLife struct {
	name    string
	elastic bool
	// removedAt is the version of its deletion.
	removedAt uint64
}

// claimLife is which nodes were selected for a claim, and from which version on it has a volume.
type claimLife struct {
	name     string
	selected promises
	boundAt  uint64
}

func newHistory() *history {
	return &history{
		pods: map[types.UID]*podLife{}, nodes: map[types.UID]*nodeLife{}, claims: map[types.UID]*claimLife{},
	}
}

// pod notes the present state of a pod; gone marks its last state.
func (h *history) pod(p *corev1.Pod, gone bool, now time.Time) error {
	at, err := version(p.ResourceVersion)
	if err != nil {
		return err
	}
	life := h.pods[p.UID]
	if life == nil {
		life = &podLife{name: p.Name, app: p.Labels["app"], created: now}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				life.claims = append(life.claims, v.PersistentVolumeClaim.ClaimName)
			}
		}
		h.pods[p.UID] = life
	}
	if life.boundAt == 0 && p.Spec.NodeName != "" {
		life.node, life.bound, life.boundAt = p.Spec.NodeName, now, at
	}
	if life.leavingAt == 0 && (gone || p.DeletionTimestamp != nil) {
		life.leavingAt = at
	}
	if gone {
		life.gone = now
	}
	life.ended = life.ended || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	life.nominated.name(p.Status.NominatedNodeName, at)
	return nil
}

// node notes the present state of a node; gone marks its last state.
func (h *history) node(n *corev1.Node, gone bool) error {
	at, err := version(n.ResourceVersion)
	if err != nil {
		return err
	}
	life := h.nodes[n.UID]
	if life == nil {
		life = &nodeLife{name: n.Name}
		h.nodes[n.UID] = life
	}
	life.elastic = life.elastic || n.Labels[poolLabel] == elastic
	if gone {
		life.removedAt = at
	}
	h.most = max(h.most, h.present())
	return nil
}

// present is how many elastic nodes there are.
func (h *history) present() int {
	n := 0
	for _, life := range h.nodes {
		if life.elastic && life.removedAt == 0 {
			n++
		}
	}
	return n
}

// claim notes the present state of a claim.
func (h *history) claim(c *corev1.PersistentVolumeClaim) error {
	at, err := version(c.ResourceVersion)
	if err != nil {
		return err
	}
	life := h.claims[c.UID]
	if life == nil {
		life = &claimLife{name: c.Name}
		h.claims[c.UID] = life
	}
	life.selected.name(c.Annotations[selectedNode], at)
	if life.boundAt == 0 && c.Spec.VolumeName != "" {
		life.boundAt = at
	}
	return nil
}

func version(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }

// waits returns how long each pod of an application waited for its node, in seconds, the longest first. A pod that was
// never bound waited until it was gone, or until now.
func (h *history) waits(app string, now time.Time) []float64 {
	var waits []float64
	for _, p := range h.pods {
		if p.app != app {
			continue
		}
		until := p.bound
		if p.boundAt == 0 {
			until = p.gone
		}
		if until.IsZero() {
			until = now
		}
		waits = append(waits, until.Sub(p.created).Seconds())
	}
	slices.SortFunc(waits, func(a, b float64) int { return cmp.Compare(b, a) })
	return waits
}

// removed is how many elastic nodes were removed.
func (h *history) removed() int {
	n := 0
	for _, life := range h.nodes {
		if life.elastic && life.removedAt > 0 {
			n++
		}
	}
	return n
}

// lost returns pods that stood on an elastic node when it was removed, and were not leaving, one sentence each.
func (h *history) lost() []string {
	return h.underRemoved(func(p *podLife, n *nodeLife) string {
		if p.node == n.name && p.boundAt > 0 && p.boundAt < n.removedAt && !p.ended &&
			(p.leavingAt == 0 || p.leavingAt > n.removedAt) {
			return fmt.Sprintf("node %s was removed under pod %s, which was not evicted", n.name, p.name)
		}
		return ""
	})
}

// stranded returns pods to which an elastic node was promised when it was removed, one sentence each: the node was
// selected for the volume of a claim of theirs, or stood in their nominatedNodeName.
func (h *history) stranded() []string {
	return h.underRemoved(func(p *podLife, n *nodeLife) string {
		waiting := (p.boundAt == 0 || p.boundAt > n.removedAt) && (p.leavingAt == 0 || p.leavingAt > n.removedAt)
		switch {
		case !waiting:
			return ""
		case h.selectedFor(p, n):
			return fmt.Sprintf("node %s was removed while a volume was made there for pod %s", n.name, p.name)
		case p.nominated.held(n.name, n.removedAt):
			return fmt.Sprintf("node %s was removed while pod %s was nominated to it", n.name, p.name)
		}
		return ""
	})
}

func (h *history) selectedFor(p *podLife, n *nodeLife) bool {
	for _, c := range h.claims {
		if slices.Contains(p.claims, c.name) && c.selected.held(n.name, n.removedAt) &&
			(c.boundAt == 0 || c.boundAt > n.removedAt) {
			return true
		}
	}
	return false
}

// underRemoved collects what is said of a pod and a removed elastic node, sorted.
func (h *history) underRemoved(say func(*podLife, *nodeLife) string) []string {
	found := map[string]bool{}
	for _, n := range h.nodes {
		if !n.elastic || n.removedAt == 0 {
			continue
		}
		for _, p := range h.pods {
			if text := say(p, n); text != "" {
				found[text] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
