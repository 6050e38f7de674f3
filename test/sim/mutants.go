package sim

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// Mutant is one part of the protocol taken away, at a seam between a process and a world.
type Mutant struct {
	Name string
	// Missing describes the guard that is removed.
	Missing string
	expected

	// txn changes a transaction on its way to the ledger, resubmit a transaction that is sent again.
	txn      func(w *world, what string, t ledger.Txn) ledger.Txn
	resubmit func(w *world, t ledger.Txn) ledger.Txn
	// sent changes a transaction on its way, given its sender.
	sent func(w *world, c committed) ledger.Txn
	// ledger changes what a watch of the ledger delivers.
	ledger func(s *streams, b replica.Batch) replica.Batch
	// facts changes the records that are read of the facts.
	facts func(s *streams, records []eventlog.Record) []eventlog.Record
	// append changes what an append of facts expects, epoch the number of a new epoch.
	append func(last eventlog.Tail) eventlog.Tail
	epoch  func(before uint64) uint64
	// hint replaces the effect of a decision on a binder, fence that of the fence on the pod, readDoc the result of a
	// read of a document.
	hint    func(d events.Decision) []effect.Input
	fence   func(w *world, e effect.FencePod) effect.Answered
	readDoc func(w *world, b *binder, e effect.ReadDoc) (*ledger.NodeDoc, bool)
	switches
}

// expected describes how a mutant is played, and the results that are demanded of it.
type expected struct {
	// rare: it takes more than a few dozen seeds to find it.
	rare bool
	// harmless: it is argued that no harm comes of it, and playing it must show none.
	harmless bool
	// budgets: it is played with Options.Budgets. family, if set, is the family of all its seeds: the one in which
	// the needed situation is likeliest.
	budgets bool
	family  family
	// lateBinds makes it likelier that a bind arrives after its caller has given up.
	lateBinds bool
	// muted are the invariants that would see the missing part itself, rather than the harm
	// it does.
	muted []string
}

// switches are the guards that a mutant skips at one place each.
type switches struct {
	// ignoreVersion: binds go without the resourceVersion.
	ignoreVersion bool
	// lostTail: shards and binders read on past lost facts. noBarrier: a start does not wait for
	// the end of the log. factsFirst: it reads facts before the ledger.
	lostTail, noBarrier, factsFirst bool
	// unsettledClaims: a fence leaves the claims of the reservation unchanged.
	unsettledClaims bool
	// earlyOwner: a shard considers itself the owner of a partition as soon as a lost compare shows that.
	earlyOwner bool
	// factsBefore: after Kubernetes was restored members may act on the facts of before.
	factsBefore bool
	// usableFacts: the queue compares the API server only with the facts that its state is built from.
	usableFacts bool
	// termsFirst: rules of pods that do not fit in a transaction are registered.
	termsFirst bool
}

func (m Mutant) mutes(invariant string) bool { return slices.Contains(m.muted, invariant) }

// Mutants lists all mutants. Each has to be found.
func Mutants() []Mutant {
	return slices.Concat(ledgerMutants(), fenceMutants(), guardMutants(), logMutants(), startMutants(),
		evictionMutants(), moveMutants(), claimMutants(), deviceMutants(), turnMutants(),
		sizeMutants(), restoreMutants(), lateMutants(), gangMutants())
}

func ledgerMutants() []Mutant {
	return []Mutant{
		{
			Name: "high-water", expected: expected{muted: []string{"S4", "S12"}},
			Missing: "removals raise no high-water",
			txn:     withoutHighWater,
		},
		{
			Name: "document-compare", expected: expected{muted: []string{"S3", "S4", "S12", "form"}},
			Missing: "placements do not compare the node's document",
			txn: func(_ *world, what string, t ledger.Txn) ledger.Txn {
				return without(t, what == "T1", isDoc)
			},
		},
		{
			Name: "decided-revision", expected: expected{muted: []string{"S4"}},
			Missing: "placements compare the newest document instead of the one decided on",
			txn: func(w *world, what string, t ledger.Txn) ledger.Txn {
				if what != "T1" {
					return t
				}
				return rebased(w, t)
			},
		},
		{
			Name: "identical-copy", Missing: "what goes again after a lost answer compares the newest documents",
			resubmit: rebased,
		},
		{
			Name: "epoch-compare", Missing: "placements do not compare the epoch of the partition",
			txn: func(_ *world, what string, t ledger.Txn) ledger.Txn {
				return without(t, what == "T1", func(key string) bool { return strings.HasPrefix(key, roster.PrefixOwn) })
			},
		},
		{
			Name: "lease-expiry", expected: expected{rare: true, muted: []string{"S12", "S4"}},
			Missing: "reservations go with the lease of the shard",
			txn: func(w *world, what string, t ledger.Txn) ledger.Txn {
				return onLease(w, what, t)
			},
		},
	}
}

func fenceMutants() []Mutant {
	return []Mutant{
		{
			Name: "resource-version", expected: expected{rare: true, family: refreshed, lateBinds: true},
			Missing:  "binds carry no resourceVersion",
			switches: switches{ignoreVersion: true},
		},
		{
			Name: "fence-write", expected: expected{rare: true},
			Missing: "a fence does not change the pod",
			fence: func(w *world, e effect.FencePod) effect.Answered {
				a := w.api.read(e.Pod.UID)
				if a.Result == effect.Done {
					unchanged := *a.Pod
					unchanged.ResourceVersion++ // or the release would be refused for want of a change
					a.Pod = &unchanged
				}
				return a
			},
		},
		{
			Name: "fence-mark", expected: expected{rare: true},
			Missing: "a fence does not mark the entry first",
			txn: func(w *world, what string, t ledger.Txn) ledger.Txn {
				return unmarked(w, what, t)
			},
		},
		{
			Name: "refresh-order", expected: expected{rare: true, family: refreshed},
			Missing: "after a refused bind the document is read before the pod",
			readDoc: docFirst,
		},
		{
			Name: "sweep-frees", expected: expected{rare: true, family: ordinary, muted: []string{"S4"}},
			Missing: "an entry that is not bound in time is released without a fence",
			txn: func(w *world, what string, t ledger.Txn) ledger.Txn {
				return released(w, what, t)
			},
		},
	}
}

func guardMutants() []Mutant {
	part := func(p registry.Part) func(string) bool {
		return func(key string) bool {
			_, _, part, ok := registry.ParseGuard(key)
			return ok && part == p
		}
	}
	take := func(name, missing string, is func(string) bool) Mutant {
		return Mutant{
			Name: name, expected: expected{rare: true, family: ordinary}, Missing: missing,
			txn: func(_ *world, what string, t ledger.Txn) ledger.Txn { return without(t, what == "T1", is) },
		}
	}
	return []Mutant{
		take("registry-compare", "placements do not compare the registry of terms",
			func(key string) bool { return key == registry.KeyTermRegistry }),
		take("guard-c", "carriers' guards are not compared", part(registry.Carriers)),
		take("guard-m", "matchers' guards are not compared", part(registry.Matchers)),
	}
}

func logMutants() []Mutant {
	return []Mutant{
		{
			Name: "lost-tail", expected: expected{rare: true},
			Missing:  "readers go on past facts that the log has lost",
			switches: switches{lostTail: true},
		},
		{
			Name: "object-progress", expected: expected{rare: true},
			Missing: "progress is the resourceVersion of the last object, not what is told of all",
			facts:   objectProgress,
		},
		{
			Name: "compacted-facts", Missing: "of each object the log keeps the last fact only",
			facts: compacted,
		},
		{
			Name: "counted-twice", Missing: "a pod that is bound counts beside its own reservation",
			facts: countedTwice,
		},
		{
			Name: "log-fence", expected: expected{rare: true},
			Missing: "facts are appended by whoever thinks that it leads",
			append:  func(eventlog.Tail) eventlog.Tail { return eventlog.AnySequence },
		},
		{
			Name: "epoch-reuse", expected: expected{rare: true, family: ordinary},
			Missing: "epochs are counted from the one before",
			epoch:   func(before uint64) uint64 { return before + 1 },
		},
	}
}

func startMutants() []Mutant {
	return []Mutant{
		{
			Name: "start-barrier", expected: expected{rare: true, family: restarted},
			Missing:  "a start does not wait for what the log held when it began",
			switches: switches{noBarrier: true},
		},
		{
			Name: "start-order", expected: expected{harmless: true},
			Missing:  "a start reads the facts' end before the ledger",
			switches: switches{factsFirst: true},
		},
		{
			Name: "bind-on-hint", Missing: "a binder takes a hint for the ledger", hint: believed,
		},
	}
}

// believed is the document that a hint would have one believe in.
func believed(d events.Decision) []effect.Input {
	token, err := ledger.ParseToken(d.Token)
	if err != nil || d.Kind != events.DecisionPlaced {
		return nil
	}
	value, err := codec.EncodeNodeDoc(ledger.NodeDoc{
		NodeUID: d.NodeUID, NodeName: d.NodeName,
		Entries: []ledger.Entry{{
			PodUID: d.Pod.UID, Namespace: d.Pod.Namespace, Name: d.Pod.Name, Role: ledger.RoleReservation,
			State: ledger.Committed, PodRV: d.PodResourceVersion, Token: token, SchedulerName: d.SchedulerName,
		}},
	})
	if err != nil {
		return nil
	}
	kv := ledger.KV{Key: ledger.KeyNode(d.NodeUID), Value: value, ModRevision: d.LedgerRevision}
	return []effect.Input{effect.LedgerChanged{Batch: replica.Batch{Events: ledger.EventBatch{
		Revision: d.LedgerRevision, Events: []ledger.Event{{KV: kv}},
	}}}}
}

func isDoc(key string) bool { return strings.HasPrefix(key, ledger.PrefixNode) }

// without drops some compares of a transaction.
func without(t ledger.Txn, here bool, is func(key string) bool) ledger.Txn {
	if here {
		t.Compares = slices.DeleteFunc(slices.Clone(t.Compares), func(c ledger.Compare) bool { return is(c.Key) })
	}
	return t
}

// docs changes the documents that a transaction puts, given the documents that the ledger holds now.
func docs(w *world, t ledger.Txn, change func(now, put ledger.NodeDoc) ledger.NodeDoc) ledger.Txn {
	t.Puts = slices.Clone(t.Puts)
	for i, p := range t.Puts {
		if !isDoc(p.Key) {
			continue
		}
		put, err := codec.DecodeNodeDoc(ledger.KV{Key: p.Key, Value: p.Value})
		if err != nil {
			continue
		}
		now, _ := w.oracle.truth.Doc(put.NodeUID)
		if value, err := codec.EncodeNodeDoc(change(now, put)); err == nil {
			t.Puts[i].Value = value
		}
	}
	return t
}

// rebased makes a transaction apply its additions to the present documents.
func rebased(w *world, t ledger.Txn) ledger.Txn {
	t.Compares = slices.Clone(t.Compares)
	for i, c := range t.Compares {
		if isDoc(c.Key) {
			d, _ := w.oracle.truth.Doc(strings.TrimPrefix(c.Key, ledger.PrefixNode))
			t.Compares[i].Revision = d.Revision
		}
	}
	return docs(w, t, func(now, put ledger.NodeDoc) ledger.NodeDoc {
		out := put
		out.Entries = slices.Clone(now.Entries)
		out.HW = maps.Clone(now.HW)
		for kind, rv := range put.HW {
			out = out.Cover(kind, rv)
		}
		for _, e := range put.Entries {
			_, exists := w.api.pod(e.PodUID)
			if now, known := now.Find(e.PodUID); exists && (!known || now.Token != e.Token) {
				out.Entries = append(out.Entries, e)
			}
		}
		return out
	})
}

func withoutHighWater(w *world, _ string, t ledger.Txn) ledger.Txn {
	return docs(w, t, func(now, put ledger.NodeDoc) ledger.NodeDoc {
		put.HW = maps.Clone(now.HW)
		return put
	})
}

// onLease has the documents that a shard writes go with its lease.
func onLease(w *world, what string, t ledger.Txn) ledger.Txn {
	if what != "T1" {
		return t
	}
	t.Puts = slices.Clone(t.Puts)
	for i, p := range t.Puts {
		if isDoc(p.Key) {
			t.Puts[i].Lease = w.anyLease()
		}
	}
	return t
}

func (w *world) anyLease() int64 {
	for _, s := range w.shards {
		if s.up && w.leases.alive(s.id) {
			return s.id
		}
	}
	return 0
}

// unmarked leaves the state of the entries that a fence marks as it is in the ledger. The binder continues as if they
// were marked.
func unmarked(w *world, what string, t ledger.Txn) ledger.Txn {
	if what != "T6" {
		return t
	}
	return docs(w, t, func(now, _ ledger.NodeDoc) ledger.NodeDoc { return now })
}

// released takes the entry out that a fence would only mark.
func released(w *world, what string, t ledger.Txn) ledger.Txn {
	if what != "T6" {
		return t
	}
	return docs(w, t, func(now, put ledger.NodeDoc) ledger.NodeDoc {
		put.Entries = slices.DeleteFunc(slices.Clone(put.Entries), func(e ledger.Entry) bool {
			was, ok := now.Find(e.PodUID)
			return ok && e.State == ledger.Fencing && was.State == ledger.Committed
		})
		return put
	})
}

// docFirst answers a read of a document with what stood there when the bind was refused:
// before the pod was read.
func docFirst(w *world, b *binder, e effect.ReadDoc) (*ledger.NodeDoc, bool) {
	d, ok := w.refused[b.member()+e.NodeUID]
	return &d, ok
}

// goOn reads on where the log ends now, as if nothing had been lost.
func (s *streams) goOn(last uint64) (follow.Batch, bool, error) {
	next := s.history.Next() - s.missed
	if last+1 < next {
		s.missed += next - (last + 1)
		next = last + 1
	}
	if last < next {
		return follow.Batch{}, false, nil
	}
	records, err := s.p.w.records(eventlog.Facts, next)
	if err != nil {
		s.history.Forget()
		return follow.Batch{}, false, nil
	}
	for i := range records {
		records[i].Sequence += s.missed
	}
	facts, err := s.history.Take(records)
	if err != nil {
		s.history.Forget()
		return follow.Batch{}, false, nil
	}
	return follow.Batch{Facts: facts}, len(facts) > 0, nil
}

// compacted leaves only the progress of facts that a later one replaces.
func compacted(s *streams, records []eventlog.Record) []eventlog.Record {
	if s.p.role == "queue" {
		return records // it writes the log, and compares it with the cluster
	}
	all, err := s.p.w.records(eventlog.Facts, records[0].Sequence)
	if err != nil {
		return records
	}
	object := func(r eventlog.Record) string {
		return r.Header.Get(eventlog.HeaderKind) + "/" + r.Header.Get(eventlog.HeaderUID)
	}
	latest := map[string]uint64{}
	for _, r := range all {
		latest[object(r)] = r.Sequence
	}
	out := slices.Clone(records)
	for i, r := range out {
		f, err := events.DecodeFact(r)
		if err != nil || f.UID == "" || latest[object(r)] == r.Sequence {
			continue
		}
		f.Op, f.UID, f.Object, f.Namespace, f.Name, f.ResourceVersion = events.OpProgress, "", nil, "", "", 0
		out[i].Message = events.EncodeFact(f.Fact)
	}
	return out
}

// countedTwice delivers a bound pod to shards under another name and UID, so that its reservation in the ledger
// continues to count too.
func countedTwice(s *streams, records []eventlog.Record) []eventlog.Record {
	if s.p.role != "scheduler" {
		return records
	}
	out := slices.Clone(records)
	for i, r := range out {
		f, err := events.DecodeFact(r)
		if err != nil || f.Kind != events.KindPod || f.Op != events.OpUpsert {
			continue
		}
		p := &corev1.Pod{}
		if err := p.Unmarshal(f.Object); err != nil || p.Spec.NodeName == "" {
			continue
		}
		p.UID, p.Name = p.UID+"-twin", p.Name+"-twin"
		if f.Object, err = p.Marshal(); err != nil {
			continue
		}
		f.UID, f.Name = string(p.UID), p.Name
		out[i].Message = events.EncodeFact(f.Fact)
	}
	return out
}

// objectProgress makes every fact claim its object's own resourceVersion as progress.
func objectProgress(_ *streams, records []eventlog.Record) []eventlog.Record {
	out := slices.Clone(records)
	for i, r := range out {
		f, err := events.DecodeFact(r)
		if err != nil || f.Op != events.OpUpsert && f.Op != events.OpDelete {
			continue
		}
		f.Progress = max(f.Progress, f.ResourceVersion)
		out[i].Message = events.EncodeFact(f.Fact)
	}
	return out
}
