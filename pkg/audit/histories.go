package audit

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/audit/fit"
	"github.com/berth-scheduler/berth/pkg/audit/mark"
	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// moment is when something happened to an object: after one resourceVersion, and at another at the latest. A change
// that was seen has after = rv - 1; one that was only found in a list has the newest version before it as after, or 0
// if it is older than the recording. The zero value never happened.
type moment struct{ after, rv uint64 }

// happened reports whether it has happened at all, as far as the history goes.
func (m moment) happened() bool { return m.rv != 0 }

// certainBy reports whether it has certainly happened at rv.
func (m moment) certainBy(rv uint64) bool { return m.happened() && m.rv <= rv }

// possibleBy reports whether it may have happened at rv.
func (m moment) possibleBy(rv uint64) bool { return m.happened() && m.after < rv }

// version is one version of an object; it is valid from `at` to the next version.
type version[T any] struct {
	at     moment
	object T
}

// within returns the versions that may have been current at some moment from lo to hi. If none was current in that
// time, it returns one of them. versions must not be empty and must be in order.
func within[T any](versions []version[T], lo, hi uint64) []version[T] {
	first, last := 0, len(versions)
	for i := range versions {
		if i+1 < len(versions) && versions[i+1].at.certainBy(lo) {
			first = i + 1
		}
	}
	for last > first+1 && versions[last-1].at.after >= hi {
		last--
	}
	return versions[first:last]
}

// podHistory is all that a history knows about one pod, by its UID. Its moments only ever go from the zero value to a
// time: a pod is bound, begins to leave, ends and is gone at most once.
type podHistory struct {
	uid, name string // name is namespace/name
	versions  []version[*podVersion]
	// bound is when the pod was bound to node by the bind with token (0: not by Berth). ended is when it became
	// terminal or was gone, leaving is the first version with a deletion timestamp.
	bound, leaving, ended, gone moment
	node                        string
	token                       ledger.Token
	// initially reports that it was bound when the recording began.
	initially bool
	// missed reports that not every version of it was seen.
	missed bool
}

// podVersion holds what the rules read from one version.
type podVersion struct {
	pod      *corev1.Pod
	requests fit.Amounts
	class    *class
}

// boundByBerth reports whether Berth bound the pod. It is false for a pod that is not bound.
func (p *podHistory) boundByBerth() bool { return p.token != 0 }

// last returns the newest version; a pod has at least one.
func (p *podHistory) last() *podVersion { return p.versions[len(p.versions)-1].object }

// decided returns the version that a decision at rv saw: the newest up to rv, or the first one if rv is older than the
// history.
func (p *podHistory) decided(rv uint64) *podVersion {
	out := p.versions[0].object
	for _, v := range p.versions {
		if v.at.rv <= rv {
			out = v.object
		}
	}
	return out
}

// requests returns the least that the pod requested at some moment from lo to hi, resource by resource. A resize
// (KEP-1287) makes the versions differ. The caller must not change the result.
func (p *podHistory) requests(lo, hi uint64) fit.Amounts {
	all := within(p.versions, lo, hi)
	if len(all) == 1 {
		return all[0].object.requests
	}
	least := fit.Amounts{}
	for name, n := range all[0].object.requests {
		for _, v := range all[1:] {
			n = min(n, v.object.requests[name])
		}
		least[name] = n
	}
	return least
}

// apply applies the next version of the pod. It returns the node from which the pod moved, if it did. The token of the
// bind is read from the version that shows the bind, since later changes of the pod may overwrite it.
func (p *podHistory) apply(at moment, v *podVersion) (moved string) {
	p.versions = append(p.versions, version[*podVersion]{at, v})
	pod := v.pod
	p.name = pod.Namespace + "/" + pod.Name
	if node := pod.Spec.NodeName; node != "" {
		switch {
		case p.node == "":
			p.bound, p.node = at, node
			p.token, _ = mark.AttemptOf(pod) // 0: not an attempt of Berth's
		case p.node != node:
			moved = p.node
		}
	}
	if pod.DeletionTimestamp != nil && !p.leaving.happened() {
		p.leaving = at
	}
	if (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed) && !p.ended.happened() {
		p.ended = at
	}
	return moved
}

// setGone records that the pod was deleted. A pod that is gone has also left and ended, whether or not the versions
// before showed it.
func (p *podHistory) setGone(at moment) {
	p.gone = at
	if !p.ended.happened() {
		p.ended = at
	}
	if !p.leaving.happened() {
		p.leaving = at
	}
}

// fenced reports whether the fence of token has changed the pod, at rv at the latest. If versions of the pod were
// missed, it reports true: the fence may be in one of them.
func (p *podHistory) fenced(token ledger.Token, rv uint64) bool {
	for _, v := range p.versions {
		pod, prefix := v.object.pod, token.String()+"-"
		if v.at.possibleBy(rv) && (strings.HasPrefix(pod.Annotations[mark.Fence], prefix) ||
			strings.HasPrefix(mark.Condition(pod, mark.Fence), prefix)) {
			return true
		}
	}
	return p.missed
}

// nodeHistory is all that a history knows about one node, by its UID. born and gone bound its life; a version is never
// empty.
type nodeHistory struct {
	uid, name string
	versions  []version[*corev1.Node]
	born      moment
	gone      moment
}

// mostAllocatable returns the most that the node had of one resource at some moment from lo to hi, 0 for a resource
// that it never had.
func (n *nodeHistory) mostAllocatable(name string, lo, hi uint64) int64 {
	most := int64(0)
	for _, v := range within(n.versions, lo, hi) {
		q := v.object.Status.Allocatable[corev1.ResourceName(name)]
		if name == string(corev1.ResourceCPU) {
			most = max(most, q.MilliValue())
			continue
		}
		most = max(most, q.Value())
	}
	return most
}

// label returns the node's value of a label, if it was the same during the whole time from lo to hi; false if it
// changed, or was absent at some moment.
func (n *nodeHistory) label(key string, lo, hi uint64) (value string, ok bool) {
	for i, v := range within(n.versions, lo, hi) {
		now, has := v.object.Labels[key]
		if !has || i > 0 && now != value {
			return "", false
		}
		value = now
	}
	return value, true
}

// budgetHistory is all that a history knows about one disruption budget.
type budgetHistory struct {
	name     string // namespace/name
	versions []version[*recording.Budget]
	gone     moment
}

func (b *budgetHistory) object() string { return "poddisruptionbudget/" + b.name }

// nodeObject and the functions after it return objects of a finding, as kind/name. ledgerObject takes a key of the
// ledger, podObject a pod's namespace/name.
func nodeObject(name string) string { return "node/" + name }

func podObject(name string) string { return "pod/" + name }

func ledgerObject(key string) string { return "ledger/" + key }

func (p *podHistory) object() string { return podObject(p.name) }

func entryObject(e ledger.Entry) string { return podObject(e.Namespace + "/" + e.Name) }

// podObjectOf returns a pod of the API server as an object of a finding.
func podObjectOf(p *corev1.Pod) string { return podObject(p.Namespace + "/" + p.Name) }
