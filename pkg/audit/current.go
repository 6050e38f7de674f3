package audit

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/pkg/audit/fit"
	"github.com/berth-scheduler/berth/pkg/audit/mark"
	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// CurrentState holds the input of `berth check`: lists of the API server, and the ledger before and after them. The
// lists are made one after the other, while the cluster goes on changing. The order in which the caller must make them
// keeps that from looking like a violation: the ledger, claims, pods, the other objects, and the ledger again.
type CurrentState struct {
	Nodes      []corev1.Node
	Pods       []corev1.Pod
	Namespaces []corev1.Namespace
	Budgets    []recording.Budget
	// VolumeClaims and DeviceClaims are read before the pods, so that their users are among the pods; Volumes are
	// read afterwards.
	VolumeClaims []corev1.PersistentVolumeClaim
	Volumes      []corev1.PersistentVolume
	DeviceClaims []resourcev1.ResourceClaim
	// Before and After are the ledger, read before and after the rest; both are nil without a ledger. A reservation
	// counts if it exists in both.
	Before, After []ledger.KV
}

// CheckReport is the result of checking the current state. Its counts are for people; Violations decides the exit
// code.
type CheckReport struct {
	Nodes   int `json:"nodes"`
	Pods    int `json:"pods"`
	Bound   int `json:"bound"`
	ByBerth int `json:"boundByBerth"`
	Pending int `json:"pending"`
	// Ledger reports whether the ledger was read. The caller of Check sets it.
	Ledger bool `json:"ledger"`
	// Reserved counts the reservations in the ledger whose pods are not bound yet, Fencing those of them that are
	// being taken back. Both are zero without a ledger.
	Reserved int `json:"reserved"`
	Fencing  int `json:"fencing"`
	// Victims counts the pods that are claimed as victims.
	Victims  int       `json:"victims"`
	Findings []Finding `json:"findings"`
}

// Violations counts the findings with that severity.
func (r *CheckReport) Violations() int {
	return len(slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Severity != Violation }))
}

// stateCheck is one check in progress: the pods on each node, with the reservations that may still become pods there.
type stateCheck struct {
	*CheckReport
	// nodes is by node name.
	nodes   map[string]*nodeUsage
	classes *classes
	// placed holds the pods on nodes, in order.
	placed []*placedPod
	// current holds the node documents as they were last read.
	current map[string]ledger.NodeDoc
	// By UID: pods that are bound, and pods that are known and have not ended.
	bound, live map[string]bool
}

// nodeUsage adds up one node: what its pods and reservations use. berthOnly reports that Berth has bound all of its
// pods, so that an excess is a violation.
type nodeUsage struct {
	node      *corev1.Node
	used      fit.Amounts
	berthOnly bool
	pods      []*placedPod
}

// placedPod is one pod on a node, not terminal.
type placedPod struct {
	pod          *corev1.Pod
	node         *corev1.Node
	class        *class
	boundByBerth bool
}

// add records a finding about the current state, which has no revision and no resourceVersion.
func (c *stateCheck) add(s Severity, invariant, message string, objects ...string) {
	c.Findings = append(c.Findings, Finding{Severity: s, Invariant: invariant, Objects: objects, Message: message})
}

// addPod counts a pod, and adds it to its node unless it has ended. A pod on a node that does not exist is a finding
// at once: nodes are listed after pods.
func (c *stateCheck) addPod(p *corev1.Pod) {
	terminal := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	c.live[string(p.UID)] = !terminal
	if p.Spec.NodeName == "" {
		if !terminal {
			c.Pending++
		}
		return
	}
	c.bound[string(p.UID)] = true
	c.Bound++
	_, ours := mark.AttemptOf(p)
	if ours {
		c.ByBerth++
	}
	if terminal {
		return
	}
	at := c.nodes[p.Spec.NodeName]
	if at == nil {
		c.add(severityFor(ours), "fit", "is bound to node "+p.Spec.NodeName+", which does not exist", podObjectOf(p))
		return
	}
	for name, n := range fit.Requests(p) {
		at.used[name] += n
	}
	at.berthOnly = at.berthOnly && ours
	r := &placedPod{pod: p, node: at.node, class: c.classes.of(p), boundByBerth: ours}
	at.pods = append(at.pods, r)
	c.placed = append(c.placed, r)
}

// addLedger adds what may still be bound: the reservations that are in the ledger both before and after the lists. One
// that is only in the first may have been bound or released meanwhile, and one that is only in the second may have
// been made for room that has become free since.
func (c *stateCheck) addLedger(before, after []ledger.KV) {
	stood := c.nodeDocs(before)
	reserved := map[string]string{}
	c.current = c.nodeDocs(after)
	for _, doc := range sortedDocs(c.current) {
		c.checkVictims(doc)
		for _, e := range reservations(doc) {
			if other, twice := reserved[e.PodUID]; twice && e.State != ledger.Held {
				c.add(Violation, "S3", "is reserved on "+doc.NodeName+" and on "+other, entryObject(e))
			}
			if e.State != ledger.Held {
				reserved[e.PodUID] = doc.NodeName
			}
			old, stands := stood[doc.NodeUID].Find(e.PodUID)
			if stands && old.Token == e.Token {
				c.addReservation(e, doc)
			}
		}
	}
}

// nodeDocs decodes the documents of nodes, by node UID. It reports each value that cannot be decoded, and leaves it
// out.
func (c *stateCheck) nodeDocs(kvs []ledger.KV) map[string]ledger.NodeDoc {
	out := map[string]ledger.NodeDoc{}
	for _, kv := range kvs {
		if !strings.HasPrefix(kv.Key, ledger.PrefixNode) {
			continue
		}
		doc, err := codec.DecodeNodeDoc(kv)
		if err != nil {
			c.add(Violation, "form", "has a value that cannot be decoded: "+err.Error(), ledgerObject(kv.Key))
			continue
		}
		out[doc.NodeUID] = doc
	}
	return out
}

// checkVictims checks that no pod of a document is claimed as a victim twice, or claimed although it is a keeper (S5).
func (c *stateCheck) checkVictims(doc ledger.NodeDoc) {
	victims := map[string]bool{}
	for _, e := range doc.Entries {
		if e.Role == ledger.RoleVictim && victims[e.PodUID] {
			c.add(Violation, "S5", "is claimed as a victim twice", entryObject(e), nodeObject(doc.NodeName))
		}
		victims[e.PodUID] = victims[e.PodUID] || e.Role == ledger.RoleVictim
	}
	for _, e := range doc.Entries {
		if e.Role == ledger.RoleKeeper && victims[e.PodUID] {
			c.add(Violation, "S5", "is claimed as a victim although placements depend on it",
				entryObject(e), nodeObject(doc.NodeName))
		}
	}
}

// addReservation counts a reservation on its node, unless its pod is bound and so counted already, or has ended, or
// the reservation is only held.
func (c *stateCheck) addReservation(e ledger.Entry, doc ledger.NodeDoc) {
	if c.bound[e.PodUID] || !c.live[e.PodUID] || e.State == ledger.Held {
		return
	}
	c.Reserved++
	if e.State == ledger.Fencing {
		c.Fencing++
	}
	at := c.nodes[doc.NodeName]
	if at == nil {
		return // the node is gone; binders release the reservation
	}
	// Also for a node that had the name before: a bind is by name.
	for name, n := range fit.EntryRequests(e) {
		at.used[name] += n
	}
	at.used[string(corev1.ResourcePods)]++
}
