package sim

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// turnMutants are about partitions that go and come back, and about nodes that register again.
func turnMutants() []Mutant {
	return []Mutant{
		{
			Name: "pick-epoch", expected: expected{rare: true, family: returned, muted: []string{"S11"}},
			Missing: "a pick is committed in the epoch of the moment instead of the one it was decided in",
			sent:    inPresentEpoch,
		},
		{
			Name: "entry-look", expected: expected{rare: true, family: returned, muted: []string{"S4"}},
			Missing: "a shard does not see which pod a reservation is for that another has made",
			ledger:  unnamed, sent: named,
		},
		{
			Name: "early-owner", expected: expected{rare: true, family: returned, muted: []string{"S11"}},
			Missing: "a lost compare makes a shard the owner, ahead of its watch",
			sent:    inPresentEpoch, switches: switches{earlyOwner: true},
		},
		{
			Name: "incarnation-compare", expected: expected{rare: true, family: registered, muted: []string{"S16"}},
			Missing: "a document is its node's UID's alone: neither incarnation nor floor are compared, and who admits a " +
				"node leaves the documents of those before",
			txn: byUID,
		},
	}
}

// inPresentEpoch has a placement compare the epoch that its sender has at present.
func inPresentEpoch(w *world, c committed) ledger.Txn {
	t := c.txn
	if c.what != "T1" {
		return t
	}
	t.Compares = slices.Clone(t.Compares)
	for i, compare := range t.Compares {
		p, is := roster.ParseOwn(compare.Key)
		if owner, epoch, held := w.oracle.truth.Roster().Owner(p); is && held && owner.Member == c.member {
			t.Compares[i].Revision = epoch
		}
	}
	return t
}

// learnEarly makes a shard the owner of partitions that a lost compare has shown to be its own, as of the revision
// that it has read of the ledger.
func (s *shard) learnEarly(current []ledger.KV) error {
	b := ledger.EventBatch{Revision: s.revision}
	for _, kv := range current {
		p, is := roster.ParseOwn(kv.Key)
		if owner, _, held := s.w.oracle.truth.Roster().Owner(p); is && held && owner.Member == s.member() {
			kv.CreateRevision, kv.ModRevision = s.revision, s.revision
			b.Events = append(b.Events, ledger.Event{KV: kv})
		}
	}
	if len(b.Events) == 0 || s.revision == 0 {
		return nil
	}
	return s.learn(b)
}

// twin marks the pod of a reservation as another one, which no facts contain.
const twin = "-twin"

// unnamed hides from shards whose the reservations are that they read of.
func unnamed(s *streams, b replica.Batch) replica.Batch {
	if s.p.role != "scheduler" {
		return b
	}
	b.KVs, b.Events.Events = slices.Clone(b.KVs), slices.Clone(b.Events.Events)
	for i := range b.KVs {
		b.KVs[i] = withTwins(b.KVs[i])
	}
	for i := range b.Events.Events {
		if !b.Events.Events[i].Deleted {
			b.Events.Events[i].KV = withTwins(b.Events.Events[i].KV)
		}
	}
	return b
}

func withTwins(kv ledger.KV) ledger.KV {
	d, err := codec.DecodeNodeDoc(kv)
	if err != nil {
		return kv // not a document
	}
	for i, e := range d.Entries {
		if e.Role == ledger.RoleReservation && e.State != ledger.Held {
			d.Entries[i].PodUID, d.Entries[i].PodRV = e.PodUID+twin, farAway
		}
	}
	if value, err := codec.EncodeNodeDoc(d); err == nil {
		kv.Value = value
	}
	return kv
}

// farAway is a resourceVersion that no facts reach.
const farAway = 1 << 62

// named gives the reservations that a shard writes again back to their pods.
func named(w *world, c committed) ledger.Txn {
	return docs(w, c.txn, func(now, put ledger.NodeDoc) ledger.NodeDoc {
		put.Entries = slices.Clone(put.Entries)
		for i, e := range put.Entries {
			uid, is := strings.CutSuffix(e.PodUID, twin)
			if was, known := now.Find(uid); is && known {
				put.Entries[i] = was
			}
		}
		return put
	})
}

// byUID compares nothing of a node's name.
func byUID(_ *world, what string, t ledger.Txn) ledger.Txn {
	t = without(t, true, func(key string) bool {
		return strings.HasPrefix(key, ledger.PrefixIncarnation) || key == ledger.KeyFloor && what == "T1"
	})
	if what != "T15" {
		return t
	}
	var admitted []string
	for _, p := range t.Puts {
		if i, err := codec.DecodeIncarnation(ledger.KV{Key: p.Key, Value: p.Value}); err == nil &&
			strings.HasPrefix(p.Key, ledger.PrefixIncarnation) {
			admitted = append(admitted, ledger.KeyNode(i.NodeUID))
		}
	}
	before := func(key string) bool { return isDoc(key) && !slices.Contains(admitted, key) }
	t.Puts = slices.DeleteFunc(slices.Clone(t.Puts), func(p ledger.Put) bool { return before(p.Key) })
	return without(t, true, before)
}
