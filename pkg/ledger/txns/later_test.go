package txns

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
)

// laterField is a field that no version of the schema has.
const laterField = 9000

// dropsLater are the messages whose fields of a later version are not kept: they are values that only their own
// fields make sense of. A later version adds fields next to them, not inside.
var dropsLater = []protoreflect.Name{
	"HighWater", "Quantity", "HostPort", "Replacement", "TermPart", "NamespaceSelector", "Requirement",
}

// extend writes a field of a later version into a message and all messages in it.
func extend(m protoreflect.Message) (fields int) {
	if !slices.Contains(dropsLater, m.Descriptor().Name()) {
		raw := protowire.AppendTag(nil, laterField, protowire.BytesType)
		m.SetUnknown(protowire.AppendString(raw, "later "+string(m.Descriptor().Name())))
		fields++
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			for i := range v.List().Len() {
				fields += extend(v.List().Get(i).Message())
			}
		default:
			fields += extend(v.Message())
		}
		return true
	})
	return fields
}

// rewritten returns a stored value as a member of this version rewrites it: it decodes and encodes it again.
func rewritten[T any](
	key string, decode func(ledger.KV) (T, error), encode func(T) ([]byte, error),
) func([]byte) ([]byte, error) {
	return func(value []byte) ([]byte, error) {
		v, err := decode(ledger.KV{Key: key, Value: value, ModRevision: 1})
		if err != nil {
			return nil, err
		}
		return encode(v)
	}
}

// laterCase is a value with content in every part that may have fields of a later version.
type laterCase struct {
	name   string
	value  func() ([]byte, error)
	into   proto.Message
	fields int
	again  func([]byte) ([]byte, error)
}

func laterCases() []laterCase {
	doc := sampletest.Full()
	doc.Entries[0].Volumes = []ledger.VolumePick{{Claim: "c", Volume: "v"}}
	doc.Entries[0].Devices = []ledger.DevicePick{{Claim: "d", Allocation: []byte("a")}}
	doc.Entries = append(doc.Entries, sampletest.Pinned().Entries...)
	register := func(r registry.Registry) ([]byte, error) {
		txn, err := registry.RegisterTerms(r, replica.NewView().Terms(), sampletest.Term())
		return txn.Puts[0].Value, err
	}
	retire := func(value []byte) ([]byte, error) {
		_, term, err := registry.DecodeTerm(ledger.KV{Key: registry.KeyTerm(sampletest.Term().ID()), Value: value,
			ModRevision: 1})
		if err != nil {
			return nil, err
		}
		txn, err := registry.RetireTerms(registry.Registry{}, term)
		return txn.Puts[1].Value, err
	}
	raise := func(f ledger.Floor) ([]byte, error) {
		txn, err := Collection{Floor: f}.Collect()
		return txn.Puts[0].Value, err
	}
	next := func(g identity.Generation) ([]byte, error) {
		_, txn, err := g.Next(1, "again", ledger.Floor{}, 7)
		return txn.Puts[0].Value, err
	}
	abort := func(p ledger.PlanRecord) ([]byte, error) { return codec.EncodePlan(p.To(ledger.PlanAborted)) }
	return []laterCase{
		{"node", func() ([]byte, error) { return codec.EncodeNodeDoc(doc) }, &ledgerpb.NodeDoc{}, 8,
			rewritten(doc.DocKey(), codec.DecodeNodeDoc, codec.EncodeNodeDoc)},
		{"budget", func() ([]byte, error) { return codec.EncodeBudget(sampletest.Budget) }, &ledgerpb.Budget{}, 3,
			rewritten(sampletest.Budget.DocKey(), codec.DecodeBudget, codec.EncodeBudget)},
		{"exclusive", func() ([]byte, error) { return codec.EncodeExclusive(sampletest.Pool) }, &ledgerpb.Exclusive{}, 3,
			rewritten(sampletest.Pool.Key, codec.DecodeExclusive, codec.EncodeExclusive)},
		{"plan", func() ([]byte, error) { return codec.EncodePlan(sampletest.Plan) }, &ledgerpb.Plan{}, 1,
			rewritten(sampletest.Plan.DocKey(), codec.DecodePlan, abort)},
		{"registry", func() ([]byte, error) { return registry.EncodeRegistry(registry.Registry{PodRV: 7}) },
			&ledgerpb.TermRegistry{}, 1,
			rewritten(registry.KeyTermRegistry, registry.DecodeRegistry, register)},
		{"term", func() ([]byte, error) { return registry.EncodeTerm(sampletest.Term()) }, &ledgerpb.Term{}, 1, retire},
		{"floor", func() ([]byte, error) { return codec.EncodeFloor(ledger.Floor{}) }, &ledgerpb.Floor{}, 1,
			rewritten(ledger.KeyFloor, codec.DecodeFloor, raise)},
		{"generation", func() ([]byte, error) { return identity.EncodeGeneration(identity.Generation{Number: 1}) },
			&ledgerpb.Generation{}, 1,
			rewritten(identity.KeyGeneration, identity.DecodeGeneration, next)},
	}
}

// A member of this version that rewrites a value keeps the fields that a later version has put there.
func TestFieldsOfALaterVersionAreKept(t *testing.T) {
	for _, c := range laterCases() {
		t.Run(c.name, func(t *testing.T) {
			value, err := c.value()
			if err != nil {
				t.Fatal(err)
			}
			if err := proto.Unmarshal(value, c.into); err != nil {
				t.Fatal(err)
			}
			if n := extend(c.into.ProtoReflect()); n != c.fields {
				t.Fatalf("%d messages were extended, want %d", n, c.fields)
			}
			extended, err := codec.Marshal(c.into)
			if err != nil {
				t.Fatal(err)
			}
			again, err := c.again(extended)
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Count(again, []byte("later ")); got != c.fields {
				t.Errorf("%d fields of a later version are left, want %d", got, c.fields)
			}
		})
	}
}

// Steps that add, mark and remove entries keep the fields that a later version has written into the other entries.
func TestStepsKeepFieldsOfALaterVersion(t *testing.T) {
	d := sampletest.DocOf(sampletest.Reservation("old", ledger.Committed, 1),
		sampletest.Reservation("done", ledger.Committed, 2))
	d.Later, d.Entries[0].Later = "doc", "entry"
	d, err := Place(d, sampletest.Reservation("new", ledger.Committed, 3))
	if err != nil {
		t.Fatal(err)
	}
	if d, _, err = MarkWanted(d, "old", 1); err != nil {
		t.Fatal(err)
	}
	if d, err = MarkFencing(d, "old", 1, ledger.FenceByPod); err != nil {
		t.Fatal(err)
	}
	d, _ = Finish(d.Cover(ledger.KindNode, 9), only{"done"})
	old, _ := d.Find("old")
	if len(d.Entries) != 2 || old.Later != "entry" || d.Later != "doc" {
		t.Errorf("%d entries, later fields %q and %q", len(d.Entries), d.Later, old.Later)
	}
}

// A promotion picks again what the pod's claims get: fields of a later version stay with the picks that stay.
func TestPromotionKeepsFieldsOfALaterVersion(t *testing.T) {
	hold := sampletest.Reservation("p", ledger.Held, 1)
	v, d := "v", "d"
	hold.Volumes = []ledger.VolumePick{{Claim: "same", Volume: "a", Later: v}, {Claim: "other", Volume: "b", Later: v}}
	hold.Devices = []ledger.DevicePick{
		{Claim: "same", Allocation: []byte("a"), Later: d}, {Claim: "other", Allocation: []byte("b"), Later: d},
	}
	c, err := Promote(Promotion{
		Authority: Authority{Epochs: map[int32]int64{ledger.PartitionOf("p"): 1}}, Target: sampletest.DocOf(hold),
		PodUID: "p",
		Token:  1,
		PodRV:  200, Fits: true, Facts: farFacts{},
		Volumes: []ledger.VolumePick{{Claim: "other", Volume: "c"}, {Claim: "same", Volume: "a"}},
		Devices: []ledger.DevicePick{{Claim: "other", Allocation: []byte("c")}, {Claim: "same", Allocation: []byte("a")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e, _ := c.Docs[0].Find("p")
	volumes, devices := e.Volumes, e.Devices
	if len(volumes) != 2 || volumes[0].Later != "" || volumes[1].Later != "v" {
		t.Errorf("volumes are %+v, want what the later version says of the one that is the same", volumes)
	}
	if len(devices) != 2 || devices[0].Later != "" || devices[1].Later != "d" {
		t.Errorf("devices are %+v, want what the later version says of those that are the same", devices)
	}
}

// only is facts that show one pod bound.
type only struct{ uid string }

func (o only) PodFact(uid string) (uint64, bool, bool) { return 200, uid == o.uid, true }
func (o only) PodProgress() uint64                     { return 200 }
