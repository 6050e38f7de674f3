package txns

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

// raisedKinds are the kinds whose high-water in a document a step may raise.
var raisedKinds = []string{ledger.KindPod, ledger.KindNode, ledger.KindBudget, ledger.KindClaim}

// drawUID draws a UID of Kubernetes, or of a static pod.
func drawUID(t *rapid.T) string {
	return rapid.OneOf(
		rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
		rapid.StringMatching(`[0-9a-f]{32}`),
	).Draw(t, "uid")
}

// drawLater draws fields that a later version wrote, or none.
func drawLater(t *rapid.T) string {
	if !rapid.Bool().Draw(t, "by a later version") {
		return ""
	}
	return string(protowire.AppendBytes(protowire.AppendTag(nil, 9000, protowire.BytesType),
		rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "later")))
}

// drawAny draws an entry with content in every field, of any size.
func drawAny(t *rapid.T) ledger.Entry {
	e := sampletest.DrawEntry(t)
	text := rapid.StringN(0, 300, 300)
	raw := rapid.SliceOfN(rapid.Byte(), 0, 300)
	e.PlacementHash, e.Delegated = rapid.Uint64().Draw(t, "wish"), rapid.Bool().Draw(t, "delegated")
	e.GroupPartition = rapid.Int32Range(0, ledger.Partitions).Draw(t, "group")
	e.Cause = rapid.SampledFrom([]ledger.FenceCause{0, ledger.FenceByPod, ledger.FenceByNode, ledger.FenceByWant}).Draw(t,
		"cause")
	e.Later = drawLater(t)
	for range rapid.IntRange(0, 3).Draw(t, "devices") {
		e.Devices = append(e.Devices, ledger.DevicePick{
			Claim: text.Draw(t, "claim"), ClaimUID: text.Draw(t, "claim uid"), ClaimRV: rapid.Uint64().Draw(t, "claim rv"),
			Allocation: raw.Draw(t, "allocation"), Spec: raw.Draw(t, "spec"), PodStatus: raw.Draw(t, "status"),
			ConfigHashes: rapid.SliceOfN(raw, 0, 3).Draw(t, "hashes"), Later: drawLater(t),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "volumes") {
		e.Volumes = append(e.Volumes, ledger.VolumePick{
			Claim: text.Draw(t, "claim"), Volume: text.Draw(t, "volume"), ClaimUID: text.Draw(t, "claim uid"),
			HasVolume: rapid.Bool().Draw(t, "has volume"), Later: drawLater(t),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "dependents") {
		e.Dependents = append(e.Dependents, ledger.Dependent{
			PodUID: drawUID(t), PodRV: rapid.Uint64().Draw(t, "rv"), Later: drawLater(t),
		})
	}
	e.Budgets = rapid.SliceOfN(text, 0, 3).Draw(t, "budgets")
	if millis := rapid.Int64Range(0, 1<<45).Draw(t, "not after"); millis > 0 {
		e.NotAfter = time.UnixMilli(millis).UTC()
	}
	if rapid.Bool().Draw(t, "replaces") {
		e.Replacement = ledger.Replacement{Owner: text.Draw(t, "owner"), Template: text.Draw(t, "template")}
	}
	return e
}

func TestSizesAreThoseOfTheCodec(t *testing.T) {
	kinds := append([]string{"later"}, raisedKinds...)
	hw := rapid.MapOfN(rapid.SampledFrom(kinds), rapid.Uint64(), 0, len(kinds))
	rapid.Check(t, func(t *rapid.T) {
		e := drawAny(t)
		if got, want := e.Bytes(), proto.Size(codec.EntryToProto(&e)); got != want {
			t.Fatalf("entry %+v has %d bytes, its size is said to be %d", e, want, got)
		}
		d := ledger.NodeDoc{
			NodeUID: drawUID(t), NodeName: rapid.StringN(0, 253, 253).Draw(t, "node"), HW: hw.Draw(t, "hw"),
			SupersededBy: rapid.SampledFrom([]string{"", "other"}).Draw(t, "superseded"), Entries: []ledger.Entry{e, drawAny(t)},
			Later:    drawLater(t),
			Revision: rapid.Int64Range(0, 1).Draw(t, "revision"),
		}
		value, err := codec.EncodeNodeDoc(d)
		if err != nil {
			t.Fatal(err)
		}
		if d.Bytes() != len(value) {
			t.Fatalf("document has %d bytes, its size is said to be %d", len(value), d.Bytes())
		}
		b := ledger.BudgetDoc{UID: "uid", Namespace: "n", Name: "name", HW: hw.Draw(t, "hw"), Claims: []ledger.BudgetClaim{
			{PodUID: drawUID(t), PodRV: 7, Plan: "plan", Regardless: true, Later: drawLater(t)}, {PodUID: drawUID(t)},
		}, Later: drawLater(t)}
		x := ledger.ExclusiveDoc{Key: ledger.KeyPool("d", "p"), HW: hw.Draw(t, "hw"), Holders: []ledger.Holder{
			{PodUID: drawUID(t), Token: 4, NodeUID: "n", Items: []string{"", "a"}, Later: drawLater(t)}, {PodUID: drawUID(t)},
		}, Later: drawLater(t)}
		change := Change{Docs: []ledger.NodeDoc{d}, Budgets: []ledger.BudgetDoc{b}, Exclusives: []ledger.ExclusiveDoc{x},
			Guards: []registry.GuardUse{{Key: registry.KeyGuard("term", "domain", registry.Carriers), Compare: true, Revision: 1,
				Put: true}},
			Marker: Marker{NodeUID: d.NodeUID, Token: e.Token}}
		if e.Token == 0 || e.PodUID == "" {
			change.Guards = nil
		}
		txn, err := change.Txn()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range txn.Puts {
			if p.Key == b.DocKey() && len(p.Value) != b.Bytes() || p.Key == x.Key && len(p.Value) != x.Bytes() {
				t.Fatalf("%s has %d bytes, sizes are said to be %d and %d", p.Key, len(p.Value), b.Bytes(), x.Bytes())
			}
		}
		if weight := d.Weight() + b.Weight() + x.Weight() + weigh(change.Guards); weight < txn.Bytes() {
			t.Fatalf("documents and guards of weight %d make a transaction of %d bytes", weight, txn.Bytes())
		}
	})
}

// drawPlaced draws an entry as it is placed, of up to a few times the size of a document.
func drawPlaced(t *rapid.T, i int) ledger.Entry {
	size := func(most int) int { // small ones are common
		return rapid.IntRange(0, rapid.SampledFrom([]int{0, 1, most / 100, most}).Draw(t, "most")).Draw(t, "size")
	}
	e := ledger.Entry{
		PodUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Namespace: "shop", Name: strings.Repeat("n", 1+size(252)),
		Role: ledger.RoleReservation, State: rapid.SampledFrom([]ledger.State{ledger.Held, ledger.Committed}).Draw(t,
			"state"),
		PodRV: 1, Token: ledger.Token(i + 1), Shard: "shard", SchedulerName: "default-scheduler",
	}
	if rapid.IntRange(0, 3).Draw(t, "victim") == 0 {
		return ledger.Entry{
			PodUID: e.PodUID, Namespace: e.Namespace, Name: e.Name, Role: ledger.RoleVictim, PodRV: 1, Plan: "plan",
			Budgets: []string{"b"},
		}
	}
	for j := range size(8000) {
		e.Ports = append(e.Ports, ledger.HostPort{IP: "0.0.0.0", Protocol: "TCP", Port: int32(j + 1)})
	}
	for j := range size(400) {
		e.Volumes = append(e.Volumes, ledger.VolumePick{Claim: fmt.Sprintf("%0253d", j)})
	}
	for j := range size(40) {
		p := ledger.DevicePick{Claim: fmt.Sprintf("claim-%d", j), Allocation: make([]byte, size(20<<10))}
		if rapid.Bool().Draw(t, "made") {
			p.Spec = []byte{1}
		} else {
			p.ClaimUID, p.ClaimRV = "uid", 1
		}
		e.Devices = append(e.Devices, p)
	}
	return e
}

// Whatever was placed, no later step of any entry in the document fails for lack of room.
func TestPlacedEntriesHaveRoomForAllThatFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := ledger.NodeDoc{NodeUID: sampletest.Full().NodeUID, NodeName: strings.Repeat("n", 253), Revision: 1}
		refused := 0
		for i := 0; refused < 3 && i < 2*ledger.MaxEntries; i++ {
			e := drawPlaced(t, i)
			next, err := Place(d, e)
			var document *ledger.DocTooLargeError
			var entry *ledger.EntryTooLargeError
			switch {
			case err == nil:
				d = next
			case errors.As(err, &entry):
				if entry.Bytes <= ledger.MaxEntryBytes {
					t.Fatalf("refused: %v", err)
				}
				refused++
			case errors.As(err, &document):
				if len(d.Entries) == 0 {
					t.Fatalf("an entry that is small enough has no room in an empty document: %v", err)
				}
				refused++
			default:
				t.Fatal(err)
			}
		}
		most := sum(d.Extent())
		for i, step := range everyStep() {
			d = step(t, d)
			if now := sum(d.Extent()); now > most {
				t.Fatalf("step %d: a document of at most %d bytes may now become one of %d", i, most, now)
			}
			if _, err := codec.EncodeNodeDoc(d); err != nil {
				t.Fatal(err)
			}
			if txn, err := Replace(d); err != nil || txn.Bytes() > ledger.MaxTxnBytes {
				t.Fatalf("a document that was accepted makes no transaction: %v", err)
			}
		}
	})
}

func sum(a, b int) int { return a + b }

// each returns a step that is applied to every entry of a document.
func each(step func(ledger.NodeDoc, ledger.Entry) (ledger.NodeDoc, error)) func(*rapid.T,
	ledger.NodeDoc) ledger.NodeDoc {
	return func(t *rapid.T, d ledger.NodeDoc) ledger.NodeDoc {
		for _, e := range d.Entries {
			next, err := step(d, e)
			if err != nil {
				t.Fatal(err)
			}
			d = next
		}
		return d
	}
}

// everyStep returns the steps that make a document grow, one after the other.
func everyStep() []func(*rapid.T, ledger.NodeDoc) ledger.NodeDoc {
	sender := strings.Repeat("s", ledger.MaxMemberID)
	return []func(*rapid.T, ledger.NodeDoc) ledger.NodeDoc{
		each(func(d ledger.NodeDoc, e ledger.Entry) (ledger.NodeDoc, error) { // T2 mark
			if e.Role != ledger.RoleVictim {
				return d, nil
			}
			c, err := MarkEvicting(EvictPlan{
				Plan: "plan", Sender: sender, Victims: []string{e.PodUID}, Docs: []ledger.NodeDoc{d},
				Owner: ledger.NodeDoc{NodeUID: "elsewhere", Entries: []ledger.Entry{
					{PodUID: "p", Role: ledger.RoleReservation, State: ledger.Held, Plan: "plan"},
				}},
			})
			if err != nil {
				return d, err
			}
			return c.Docs[0], nil
		}),
		each(func(d ledger.NodeDoc, e ledger.Entry) (ledger.NodeDoc, error) {
			if e.Role != ledger.RoleReservation {
				return d, nil
			}
			next, _, err := MarkWanted(d, e.PodUID, e.Token)
			return next, err
		}),
		each(func(d ledger.NodeDoc, e ledger.Entry) (ledger.NodeDoc, error) { // T3
			if e.State != ledger.Held {
				return d, nil
			}
			c, err := Promote(Promotion{
				Authority: Authority{Epochs: map[int32]int64{e.Partition(): 1}}, Target: d, PodUID: e.PodUID, Token: e.Token,
				PodRV: math.MaxUint64, Wish: math.MaxUint64, Fits: true, Volumes: e.Volumes, Devices: e.Devices,
				Delegated: true, Facts: farFacts{},
			})
			if err != nil {
				return d, err
			}
			return c.Docs[0], nil
		}),
		each(func(d ledger.NodeDoc, e ledger.Entry) (ledger.NodeDoc, error) { // T14
			for _, p := range e.Devices {
				if !p.Unmade() {
					continue
				}
				p.ClaimUID, p.ClaimRV = sampletest.Full().NodeUID, math.MaxUint64
				var err error
				if d, err = NameClaim(d, e.PodUID, e.Token, p); err != nil {
					return d, err
				}
			}
			return d, nil
		}),
		each(func(d ledger.NodeDoc, e ledger.Entry) (ledger.NodeDoc, error) { // T6
			if e.Role != ledger.RoleReservation {
				return d, nil
			}
			return MarkFencing(d, e.PodUID, e.Token, ledger.FenceByPod)
		}),
		func(_ *rapid.T, d ledger.NodeDoc) ledger.NodeDoc {
			for _, kind := range raisedKinds {
				d = d.Cover(kind, math.MaxUint64)
			}
			d.SupersededBy = sampletest.Full().NodeUID
			return d
		},
	}
}

// farFacts have the highest possible progress, and know of no pod.
type farFacts struct{}

func (farFacts) PodFact(string) (boundRV uint64, bound, known bool)   { return 0, false, false }
func (farFacts) PodProgress() uint64                                  { return math.MaxUint64 }
func (farFacts) BudgetProgress() uint64                               { return math.MaxUint64 }
func (farFacts) VictimFate(string, uint64) (fate Fate, leftAt uint64) { return Left, 1 }

// Documents of budgets, volumes and pools to which something was added have room for their high-waters.
func TestClaimsLeaveRoomForHighWaters(t *testing.T) {
	b := ledger.BudgetDoc{UID: "uid"}
	x := ledger.ExclusiveDoc{Key: ledger.KeyPool("driver", "pool")}
	for i := 0; ; i++ {
		uid := strings.Repeat("u", 253) + fmt.Sprint(i)
		claim := ledger.BudgetClaim{PodUID: uid, PodRV: 1, Plan: "plan"}
		next, err := ClaimBudget(BudgetRoom{Doc: b, Exceed: true}, farFacts{}, claim)
		if err != nil {
			break
		}
		b = next
	}
	for i := 0; ; i++ {
		items := []string{strings.Repeat("i", 500) + fmt.Sprint(i)}
		next, err := x.AddHolder(ledger.Holder{PodUID: fmt.Sprint(i), Token: ledger.Token(i + 1), NodeUID: "n",
			Items: items})
		if err != nil {
			break
		}
		x = next
	}
	for _, kind := range raisedKinds {
		b.HW, x.HW = ledger.Raised(b.HW, kind, math.MaxUint64), ledger.Raised(x.HW, kind, math.MaxUint64)
	}
	if _, err := codec.EncodeBudget(b); err != nil || len(b.Claims) < 200 {
		t.Errorf("budget with %d claims: %v", len(b.Claims), err)
	}
	if _, err := codec.EncodeExclusive(x); err != nil || len(x.Holders) < 100 {
		t.Errorf("pool with %d holders: %v", len(x.Holders), err)
	}
}

// The message about an entry that is too large names its parts, and what is accepted.
func TestEntryThatNoDocumentHasRoomFor(t *testing.T) {
	e := ledger.Entry{
		PodUID: "uid", Namespace: "shop", Name: "huge", Role: ledger.RoleReservation, State: ledger.Committed, PodRV: 1,
		Token: 1,
		Ports: make([]ledger.HostPort, 9000),
	}
	for i := range e.Ports {
		e.Ports[i] = ledger.HostPort{IP: "0.0.0.0", Protocol: "TCP", Port: int32(i + 1)}
	}
	_, err := Place(ledger.NodeDoc{NodeUID: "n", NodeName: "n"}, e)
	var large *ledger.EntryTooLargeError
	want := "pod shop/huge takes 170911 bytes"
	if !errors.As(err, &large) || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "9000 host ports") || !strings.Contains(err.Error(),
		fmt.Sprint(ledger.MaxEntryBytes)) {
		t.Errorf("got %v, want an error with %q, the ports and the limit", err, want)
	}
}

// A plan with more bytes than a transaction accepts can still be promoted: claims on victims that are gone are left
// to hand-over.
func TestPromotionOfAPlanWithManyFullDocuments(t *testing.T) {
	hold := ledger.Entry{
		PodUID: "p", Namespace: "n", Name: "p", Role: ledger.RoleReservation, State: ledger.Held, PodRV: 1, Token: 1,
		Plan: "plan",
	}
	target, err := Place(ledger.NodeDoc{NodeUID: "target", NodeName: "target", Revision: 1}, hold)
	if err != nil {
		t.Fatal(err)
	}
	var others []ledger.NodeDoc
	for i := range 40 {
		d := ledger.NodeDoc{NodeUID: fmt.Sprint("n", i), NodeName: fmt.Sprint("n", i), Revision: 1}
		victim := ledger.Entry{PodUID: fmt.Sprint("v", i), PodRV: 1}
		if d, err = ClaimVictim(d, victim, "plan"); err != nil {
			t.Fatal(err)
		}
		d, err = Place(d, ledger.Entry{
			PodUID: "other", Role: ledger.RoleReservation, State: ledger.Committed, PodRV: 1, Token: 2,
			Volumes: []ledger.VolumePick{{Claim: strings.Repeat("c", 50<<10)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, d)
	}
	c, err := Promote(Promotion{
		Authority: Authority{Epochs: map[int32]int64{hold.Partition(): 1}}, Target: target, Docs: others,
		PodUID: "p", Token: 1, PodRV: 2, Fits: true, Facts: farFacts{},
	})
	if err != nil {
		t.Fatal(err)
	}
	if txn, err := c.Txn(); err != nil || len(txn.Puts) < 5 {
		t.Errorf("transaction of %d puts: %v", len(txn.Puts), err)
	}
}
