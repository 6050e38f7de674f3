package replica

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// Plans is the part of a View about plans: their records, and where their holds, placeholders and victims are. A plan
// without a record has only entries in node documents.
type Plans struct {
	records map[string]ledger.PlanRecord
	// victims maps a pod to the node whose document claims it, nodes a plan to the nodes whose documents contain
	// entries of it. victimsIn counts the claims on pods of each namespace.
	victims   map[string]string
	victimsIn map[string]int
	nodes     map[string][]string
	docs      *documents
}

func newPlans(docs *documents) Plans {
	return Plans{
		records: map[string]ledger.PlanRecord{}, victims: map[string]string{}, victimsIn: map[string]int{},
		nodes: map[string][]string{}, docs: docs,
	}
}

func (p *Plans) clone(docs *documents) Plans {
	return Plans{
		records: maps.Clone(p.records), victims: maps.Clone(p.victims), victimsIn: maps.Clone(p.victimsIn),
		nodes: maps.Clone(p.nodes), docs: docs,
	}
}

// Record returns the record of a plan; false if there is none (any more).
func (p *Plans) Record(plan string) (ledger.PlanRecord, bool) {
	r, ok := p.records[plan]
	return r, ok
}

// Records iterates over all plan records, in no order.
func (p *Plans) Records() iter.Seq[ledger.PlanRecord] { return maps.Values(p.records) }

// Victim returns the claim on a pod and the document that contains it.
func (p *Plans) Victim(podUID string) (ledger.NodeDoc, ledger.Entry, bool) {
	d, ok := p.docs.byNode[p.victims[podUID]]
	if !ok {
		return ledger.NodeDoc{}, ledger.Entry{}, false
	}
	e, ok := d.Victim(podUID)
	return d, e, ok
}

// HasVictimsIn reports whether a pod of a namespace is claimed as a victim.
func (p *Plans) HasVictimsIn(namespace string) bool { return p.victimsIn[namespace] > 0 }

// Docs returns the documents that contain entries of a plan, by node UID.
func (p *Plans) Docs(plan string) []ledger.NodeDoc {
	var out []ledger.NodeDoc
	for _, uid := range slices.Sorted(slices.Values(p.nodes[plan])) {
		out = append(out, p.docs.byNode[uid])
	}
	return out
}

// Owner returns the hold or placeholder that a plan works for, and the document that contains it.
func (p *Plans) Owner(plan string) (ledger.NodeDoc, ledger.Entry, bool) {
	for _, uid := range p.nodes[plan] {
		if e, ok := p.docs.byNode[uid].Owner(plan); ok {
			return p.docs.byNode[uid], e, true
		}
	}
	return ledger.NodeDoc{}, ledger.Entry{}, false
}

// VictimOfLivePlan reports whether an entry is a victim that leaves for another pod: its plan has a hold or
// placeholder, and if it has a record, that is Ready. A victim of a plan that was given up counts like any pod until
// it is gone, whatever has been sent.
func (p *Plans) VictimOfLivePlan(victim ledger.Entry) bool {
	if victim.Role != ledger.RoleVictim {
		return false
	}
	if r, ok := p.records[victim.Plan]; ledger.IsRecorded(victim.Plan) && (!ok || r.State != ledger.PlanReady) {
		return false
	}
	_, _, ok := p.Owner(victim.Plan)
	return ok
}

// index updates the indexes for one document that changed. Entries that stayed keep what the indexes have about them.
func (p *Plans) index(c *DocChange) {
	node := c.Before.NodeUID
	for _, e := range c.Removed {
		if e.Role == ledger.RoleVictim {
			p.countVictim(e.Namespace, -1)
			if p.victims[e.PodUID] == node && c.After.VictimIndex(e.PodUID) < 0 {
				delete(p.victims, e.PodUID)
			}
		}
		at, known := p.nodes[e.Plan]
		if !known || slices.ContainsFunc(c.After.Entries, func(a ledger.Entry) bool { return a.Plan == e.Plan }) {
			continue
		}
		at = slices.DeleteFunc(slices.Clone(at), func(uid string) bool { return uid == node })
		if len(at) == 0 {
			delete(p.nodes, e.Plan)
			continue
		}
		p.nodes[e.Plan] = at
	}
	node = c.After.NodeUID
	for _, e := range c.Added {
		if e.Role == ledger.RoleVictim {
			p.victims[e.PodUID] = node
			p.countVictim(e.Namespace, 1)
		}
		if e.Plan != "" && !slices.Contains(p.nodes[e.Plan], node) {
			p.nodes[e.Plan] = append(slices.Clip(p.nodes[e.Plan]), node)
		}
	}
}

// countVictim keeps no entry for a namespace without victims.
func (p *Plans) countVictim(namespace string, change int) {
	if p.victimsIn[namespace] += change; p.victimsIn[namespace] == 0 {
		delete(p.victimsIn, namespace)
	}
}

// carryOver keeps what was learned later than the list, which was read at revision. The indexes follow the documents.
func (p *Plans) carryOver(was *Plans, revision int64) {
	keepLater(p.records, was.records, revision, ledger.PlanRecord.ReadAt)
}

func (p *Plans) put(kv ledger.KV, set *changeSet) error {
	return putNewer(p.records, kv, codec.DecodePlan, strings.TrimPrefix(kv.Key, ledger.PrefixPlan), &set.plans)
}

func (p *Plans) drop(key string, revision int64, set *changeSet) {
	dropOlder(p.records, strings.TrimPrefix(key, ledger.PrefixPlan), revision, &set.plans)
}
