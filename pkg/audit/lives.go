package audit

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

const (
	// annotationAttempt holds the token that a bind by Berth leaves on the pod. annotationFence holds the change
	// that a fence makes: the token, a dash, and a unique suffix. Where annotations have no room, conditions of
	// these types are used instead: that of an attempt holds the token and the node, that of a fence the same as
	// the annotation.
	annotationAttempt = "berth.dev/attempt"
	annotationFence   = "berth.dev/fence"
)

// attemptOf returns the token of the bind by Berth that placed a pod on its node; false if there was none. If both
// forms exist, the condition is from an earlier attempt: annotations that contain one token have room for another,
// so a bind overwrites it.
func attemptOf(pod *corev1.Pod) (ledger.Token, bool) {
	if token, err := ledger.ParseToken(pod.Annotations[annotationAttempt]); err == nil {
		return token, true
	}
	text, node, _ := strings.Cut(conditionOf(pod, annotationAttempt), " ")
	if node != pod.Spec.NodeName {
		return 0, false
	}
	token, err := ledger.ParseToken(text)
	return token, err == nil
}

// conditionOf returns the message of a condition of Berth's; empty for none.
func conditionOf(pod *corev1.Pod, name corev1.PodConditionType) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == name {
			return c.Message
		}
	}
	return ""
}

// moment is when something happened to an object: after one resourceVersion, and at another at the latest. A change
// that was seen has after = rv - 1. The zero value never happened.
type moment struct{ after, rv uint64 }

func (m moment) known() bool { return m.rv != 0 }

// surely reports whether it has certainly happened at rv.
func (m moment) surely(rv uint64) bool { return m.known() && m.rv <= rv }

// maybe reports whether it may have happened at rv.
func (m moment) maybe(rv uint64) bool { return m.known() && m.after < rv }

// amounts is by resource name: milli-CPU for cpu, otherwise the resource's own unit; "pods" is included.
type amounts map[string]int64

// version is one version of an object; it is valid from `at` to the next version.
type version[T any] struct {
	at     moment
	object T
}

// within returns the versions that may have been current at some moment from lo to hi. If none was current in that
// time, it returns all of them.
func within[T any](versions []version[T], lo, hi uint64) []version[T] {
	first, last := 0, len(versions)
	for i := range versions {
		if i+1 < len(versions) && versions[i+1].at.surely(lo) {
			first = i + 1
		}
	}
	for last > first+1 && versions[last-1].at.after >= hi {
		last--
	}
	return versions[first:last]
}

// podLife is all that a history knows about one pod.
type podLife struct {
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
	requests amounts
	class    *class
}

func (p *podLife) ours() bool { return p.token != 0 }

func (p *podLife) last() *podVersion { return p.versions[len(p.versions)-1].object }

// decided returns the version that a decision at rv saw.
func (p *podLife) decided(rv uint64) *podVersion {
	out := p.versions[0].object
	for _, v := range p.versions {
		if v.at.rv <= rv {
			out = v.object
		}
	}
	return out
}

// requests returns the least that the pod requested at some moment from lo to hi.
func (p *podLife) requests(lo, hi uint64) amounts {
	all := within(p.versions, lo, hi)
	if len(all) == 1 {
		return all[0].object.requests
	}
	least := amounts{}
	for name, n := range all[0].object.requests {
		for _, v := range all[1:] {
			n = min(n, v.object.requests[name])
		}
		least[name] = n
	}
	return least
}

// apply applies the next version of the pod. It returns the node from which the pod moved, if it did.
func (p *podLife) apply(at moment, v *podVersion) (moved string) {
	p.versions = append(p.versions, version[*podVersion]{at, v})
	pod := v.pod
	p.name = pod.Namespace + "/" + pod.Name
	if node := pod.Spec.NodeName; node != "" {
		switch {
		case p.node == "":
			p.bound, p.node = at, node
			p.token, _ = attemptOf(pod) // 0: not an attempt of Berth's
		case p.node != node:
			moved = p.node
		}
	}
	if pod.DeletionTimestamp != nil && !p.leaving.known() {
		p.leaving = at
	}
	if (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed) && !p.ended.known() {
		p.ended = at
	}
	return moved
}

func (p *podLife) goes(at moment) {
	p.gone = at
	if !p.ended.known() {
		p.ended = at
	}
	if !p.leaving.known() {
		p.leaving = at
	}
}

// fenced reports whether the fence of token has changed the pod, at rv at the latest.
func (p *podLife) fenced(token ledger.Token, rv uint64) bool {
	for _, v := range p.versions {
		pod, mark := v.object.pod, token.String()+"-"
		if v.at.maybe(rv) && (strings.HasPrefix(pod.Annotations[annotationFence], mark) ||
			strings.HasPrefix(conditionOf(pod, annotationFence), mark)) {
			return true
		}
	}
	return p.missed
}

// requestsOf returns what a pod requests of a node, by upstream's own arithmetic (KEP-753, KEP-1287, KEP-2837),
// without the resources that are provided as devices (KEP-5004).
func requestsOf(pod *corev1.Pod) amounts {
	list := resource.PodRequests(pod, resource.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	out := amountsOf(list)
	out[string(corev1.ResourcePods)] = 1
	return out.without(pod.Status.ExtendedResourceClaimStatus)
}

// without removes the resources that a pod gets as devices.
func (a amounts) without(status *corev1.PodExtendedResourceClaimStatus) amounts {
	if status != nil {
		for i := range status.RequestMappings {
			delete(a, status.RequestMappings[i].ResourceName)
		}
	}
	return a
}

// promisedTo returns what a reservation takes from a node: like requestsOf, but without the pod itself.
func promisedTo(e ledger.Entry) amounts {
	out := amounts{}
	maps.Copy(out, e.Requests)
	for _, d := range e.Devices {
		var status corev1.PodExtendedResourceClaimStatus
		if status.Unmarshal(d.PodStatus) == nil {
			out.without(&status)
		}
	}
	return out
}

func amountsOf(list corev1.ResourceList) amounts {
	out := amounts{}
	for name, q := range list {
		if name == corev1.ResourceCPU {
			out[string(name)] = q.MilliValue()
			continue
		}
		out[string(name)] = q.Value()
	}
	return out
}

// nodeLife is all that a history knows about one node.
type nodeLife struct {
	uid, name string
	versions  []version[*corev1.Node]
	born      moment
	gone      moment
}

// room returns the most that the node had of one resource at some moment from lo to hi.
func (n *nodeLife) room(name string, lo, hi uint64) int64 {
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

// label returns the node's value of a label, if it was the same during the whole time from lo to hi.
func (n *nodeLife) label(key string, lo, hi uint64) (value string, ok bool) {
	for i, v := range within(n.versions, lo, hi) {
		now, has := v.object.Labels[key]
		if !has || i > 0 && now != value {
			return "", false
		}
		value = now
	}
	return value, true
}

// budgetLife is all that a history knows about one disruption budget.
type budgetLife struct {
	name     string // namespace/name
	versions []version[*recording.Budget]
	gone     moment
}

func (b *budgetLife) object() string { return "poddisruptionbudget/" + b.name }

func nodeObject(name string) string { return "node/" + name }

func podObject(name string) string { return "pod/" + name }

func ledgerObject(key string) string { return "ledger/" + key }

func (p *podLife) object() string { return podObject(p.name) }

func entryObject(e ledger.Entry) string { return podObject(e.Namespace + "/" + e.Name) }

func nameOf(p *corev1.Pod) string { return podObject(p.Namespace + "/" + p.Name) }
