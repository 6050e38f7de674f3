package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// promises is the ledger as it is stored, key by key. The oracle shares only the wire format with the product: it
// decides independently what counts, where it counts and how often.
type promises struct {
	docs map[string]*ledgerpb.NodeDoc
	// names maps each node name to the UID of the present node of that name.
	names map[string]string
	// floor are the high-waters that collected documents have left.
	floor map[string]uint64
	// closed: no generation of the ledger is open, and its earlier promises are being cleared.
	closed bool
	later  laterFields
}

func newPromises() promises {
	return promises{
		docs: map[string]*ledgerpb.NodeDoc{}, names: map[string]string{}, floor: map[string]uint64{},
		later: laterFields{},
	}
}

// fold applies events of the store, and returns the deleted documents.
func (p *promises) fold(events []ledger.Event) (deleted []*ledgerpb.NodeDoc, err error) {
	for _, ev := range events {
		switch {
		case ev.Deleted && p.docs[ev.Key] != nil:
			deleted = append(deleted, p.docs[ev.Key])
			delete(p.docs, ev.Key)
		case ev.Deleted:
			delete(p.names, strings.TrimPrefix(ev.Key, ledger.PrefixIncarnation))
		default:
			err = p.put(ev.Key, ev.Value)
		}
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", ev.Key, err)
		}
	}
	return deleted, nil
}

func (p *promises) put(key string, value []byte) error {
	switch {
	case strings.HasPrefix(key, ledger.PrefixNode):
		d := &ledgerpb.NodeDoc{}
		p.docs[key] = d
		return proto.Unmarshal(value, d)
	case strings.HasPrefix(key, ledger.PrefixIncarnation):
		var i ledgerpb.Incarnation
		err := proto.Unmarshal(value, &i)
		p.names[strings.TrimPrefix(key, ledger.PrefixIncarnation)] = i.GetNodeUid()
		return err
	case key == ledger.KeyFloor:
		var f ledgerpb.Floor
		err := proto.Unmarshal(value, &f)
		p.floor = highWaters(f.GetHighWater())
		return err
	case key == identity.KeyGeneration:
		var g ledgerpb.Generation
		err := proto.Unmarshal(value, &g)
		p.closed = !g.GetOpen()
		return err
	}
	return nil
}

func highWaters(list []*ledgerpb.HighWater) map[string]uint64 {
	out := map[string]uint64{}
	for _, hw := range list {
		out[hw.GetKind()] = hw.GetResourceVersion()
	}
	return out
}

// uidOf is the pod of an entry: as text, or as the sixteen bytes of a UUID.
func uidOf(e *ledgerpb.Entry) string {
	b := e.GetPodUid()
	if len(b) != 16 {
		return e.GetPodUidText()
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// live reports whether the pod of an entry may be bound on account of it, now or by a request on its way.
func live(e *ledgerpb.Entry) bool {
	return e.GetRole() == ledgerpb.Role_ROLE_RESERVATION &&
		(e.GetState() == ledgerpb.State_STATE_COMMITTED || e.GetState() == ledgerpb.State_STATE_FENCING)
}

// reservation is one entry that a pod may be bound on account of, and the name of the node it would be bound to.
type reservation struct {
	node  string
	entry *ledgerpb.Entry
}

// reservations are all of them by pod, each in the order of the documents' keys.
func (p *promises) reservations() map[string][]reservation {
	out := map[string][]reservation{}
	for _, key := range slices.Sorted(maps.Keys(p.docs)) {
		d := p.docs[key]
		for _, e := range d.GetEntries() {
			if live(e) {
				out[uidOf(e)] = append(out[uidOf(e)], reservation{d.GetNodeName(), e})
			}
		}
	}
	return out
}

// found is the reservation of a pod in the document of one node.
func (p *promises) found(nodeUID, podUID string) *ledgerpb.Entry {
	for _, e := range p.docs[ledger.PrefixNode+nodeUID].GetEntries() {
		if e.GetRole() == ledgerpb.Role_ROLE_RESERVATION && uidOf(e) == podUID {
			return e
		}
	}
	return nil
}

// stored looks at what the store has just done, by the documents alone.
func (o *oracle) stored(events []ledger.Event, c *committed) {
	before := maps.Clone(o.promised.docs)
	deleted, err := o.promised.fold(events)
	if err != nil {
		o.w.note("form", "ledger: %v", err)
		return
	}
	o.checkDeleted(deleted)
	var fresh []string
	for _, ev := range events {
		if d := o.promised.docs[ev.Key]; d != nil && !ev.Deleted {
			fresh = append(fresh, o.checkPromises(before[ev.Key], d, c)...)
			o.checkGangClaims(before[ev.Key], d)
		}
		if strings.HasPrefix(ev.Key, ledger.PrefixPlan) && !ev.Deleted {
			o.checkGangStart(ev)
		}
	}
	o.checkGangs(fresh)
	o.checkLater(events)
	o.checkTerms(events)
	o.checkOnce()
}

// checkDeleted is the other half of S12: a document is deleted only if it promises nothing and the floor covers its
// high-waters. The documents of an ended generation are deleted regardless.
func (o *oracle) checkDeleted(docs []*ledgerpb.NodeDoc) {
	for _, d := range docs {
		if o.promised.closed {
			continue
		}
		if n := len(d.GetEntries()); n > 0 {
			o.w.note("S12", "the document of node %s was deleted with %d entries", d.GetNodeUid(), n)
		}
		for kind, rv := range highWaters(d.GetHighWater()) {
			if o.promised.floor[kind] < rv {
				o.w.note("S12", "the document of node %s was deleted with high-water %d of %ss, the floor has %d",
					d.GetNodeUid(), rv, kind, o.promised.floor[kind])
			}
		}
	}
}

// checkPromises checks the new promises of a document, and returns their pods. S16: its node is the present node of
// that name.
func (o *oracle) checkPromises(before, now *ledgerpb.NodeDoc, c *committed) (fresh []string) {
	for _, e := range now.GetEntries() {
		same := func(old *ledgerpb.Entry) bool { return live(old) && old.GetToken() == e.GetToken() }
		if !live(e) || slices.ContainsFunc(before.GetEntries(), same) {
			continue
		}
		name := now.GetNodeName()
		fresh = append(fresh, uidOf(e))
		o.since[e.GetToken()] = o.w.api.rv
		o.grant(name, o.believed(name, uidOf(e), c))
		if uid := o.promised.names[name]; uid != now.GetNodeUid() {
			o.w.note("S16", "pod %s was reserved in the document of node %s, and the name %s stands for node %q",
				uidOf(e), now.GetNodeUid(), name, uid)
		}
	}
	return fresh
}

// checkOnce is S3 and I1: a pod has one reservation, over all documents.
func (o *oracle) checkOnce() {
	all := o.promised.reservations()
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		if at := all[uid]; len(at) > 1 {
			o.w.note("S3", "pod %s is reserved %d times: on %s with token %016x and on %s with token %016x",
				uid, len(at), at[0].node, at[0].entry.GetToken(), at[1].node, at[1].entry.GetToken())
		}
	}
}
