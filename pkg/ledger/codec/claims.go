package codec

import (
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// States have the same numbers as in the wire form; this stops compiling when they drift apart.
var _ = [1]struct{}{}[ledger.PlanDone-ledger.PlanState(ledgerpb.PlanState_PLAN_STATE_DONE)]

// EncodeBudget encodes the value of b/<pdb uid>; the revision is not part of it. It returns a *DocTooLargeError
// when the document exceeds the limits.
func EncodeBudget(b ledger.BudgetDoc) ([]byte, error) {
	if b.UID == "" {
		return nil, fmt.Errorf("ledger: document of disruption budget %s/%s has no UID", b.Namespace, b.Name)
	}
	m := &ledgerpb.Budget{
		Version: ledger.SchemaVersion, Uid: b.UID, Namespace: b.Namespace, Name: b.Name, HighWater: highWaterToProto(b.HW),
	}
	RestoreUnknown(m, b.Later)
	for _, c := range b.Claims {
		p := &ledgerpb.BudgetClaim{PodResourceVersion: c.PodRV, Plan: c.Plan, Regardless: c.Regardless}
		RestoreUnknown(p, c.Later)
		if raw, ok := uuidBytes(c.PodUID); ok {
			p.PodUid = raw
		} else {
			p.PodUidText = c.PodUID
		}
		m.Claims = append(m.Claims, p)
	}
	return bounded(b.DocKey(), len(b.Claims), m)
}

// bounded marshals a document, unless it exceeds the limits.
func bounded(key string, entries int, m proto.Message) ([]byte, error) {
	value, err := Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("ledger: document %s: %w", key, err)
	}
	if tooLarge(entries, len(value)) {
		return nil, &ledger.DocTooLargeError{Key: key, Entries: entries, Bytes: len(value)}
	}
	return value, nil
}

// DecodeBudget decodes b/<pdb uid> as stored. It refuses values that exceed the limits, are of a later schema, or
// name another budget than the key does.
func DecodeBudget(kv ledger.KV) (ledger.BudgetDoc, error) {
	b, err := decodeBudget(kv)
	if err != nil {
		return ledger.BudgetDoc{}, fmt.Errorf("ledger: key %s at revision %d: %w", kv.Key, kv.ModRevision, err)
	}
	return b, nil
}

func decodeBudget(kv ledger.KV) (ledger.BudgetDoc, error) {
	uid, ok := strings.CutPrefix(kv.Key, ledger.PrefixBudget)
	if !ok {
		return ledger.BudgetDoc{}, fmt.Errorf("not a disruption budget's document, want a key under %s", ledger.PrefixBudget)
	}
	var m ledgerpb.Budget
	if err := Unmarshal(kv.Value, &m, m.GetVersion); err != nil {
		return ledger.BudgetDoc{}, err
	}
	if err := readable(len(m.GetClaims()), len(kv.Value)); err != nil {
		return ledger.BudgetDoc{}, err
	}
	if m.GetUid() != uid {
		return ledger.BudgetDoc{}, fmt.Errorf("value is of disruption budget %q", m.GetUid())
	}
	b := ledger.BudgetDoc{UID: uid, Namespace: m.GetNamespace(), Name: m.GetName(), Revision: kv.ModRevision,
		Later: Unknown(&m)}
	var err error
	if b.HW, err = highWaterFromProto(m.GetHighWater()); err != nil {
		return ledger.BudgetDoc{}, err
	}
	for i, c := range m.GetClaims() {
		pod, err := uidFromProto(c)
		if err != nil {
			return ledger.BudgetDoc{}, fmt.Errorf("claim %d: %w", i, err)
		}
		b.Claims = append(b.Claims, ledger.BudgetClaim{
			PodUID: pod, PodRV: c.GetPodResourceVersion(), Plan: c.GetPlan(), Regardless: c.GetRegardless(), Later: Unknown(c),
		})
	}
	return b, nil
}

// EncodeExclusive encodes the value of x/...; the revision is not part of it. It returns a *DocTooLargeError when
// the document exceeds the limits.
func EncodeExclusive(x ledger.ExclusiveDoc) ([]byte, error) {
	if !ledger.IsExclusiveKey(x.Key) {
		return nil, fmt.Errorf("ledger: key %q: want one under %s or %s", x.Key, ledger.PrefixVolume, ledger.PrefixPool)
	}
	m := &ledgerpb.Exclusive{Version: ledger.SchemaVersion, HighWater: highWaterToProto(x.HW)}
	RestoreUnknown(m, x.Later)
	for _, h := range x.Holders {
		p := &ledgerpb.Holder{Token: uint64(h.Token), NodeUid: h.NodeUID, Items: h.Items}
		RestoreUnknown(p, h.Later)
		if raw, ok := uuidBytes(h.PodUID); ok {
			p.PodUid = raw
		} else {
			p.PodUidText = h.PodUID
		}
		m.Holders = append(m.Holders, p)
	}
	return bounded(x.Key, len(x.Holders), m)
}

// DecodeExclusive decodes x/... as stored. It refuses values that exceed the limits or are of a later schema.
func DecodeExclusive(kv ledger.KV) (ledger.ExclusiveDoc, error) {
	x, err := decodeExclusive(kv)
	if err != nil {
		return ledger.ExclusiveDoc{}, fmt.Errorf("ledger: key %s at revision %d: %w", kv.Key, kv.ModRevision, err)
	}
	return x, nil
}

func decodeExclusive(kv ledger.KV) (ledger.ExclusiveDoc, error) {
	if !ledger.IsExclusiveKey(kv.Key) {
		return ledger.ExclusiveDoc{}, fmt.Errorf("not a volume's or pool's document, want a key under %s or %s",
			ledger.PrefixVolume, ledger.PrefixPool)
	}
	var m ledgerpb.Exclusive
	if err := Unmarshal(kv.Value, &m, m.GetVersion); err != nil {
		return ledger.ExclusiveDoc{}, err
	}
	if err := readable(len(m.GetHolders()), len(kv.Value)); err != nil {
		return ledger.ExclusiveDoc{}, err
	}
	x := ledger.ExclusiveDoc{Key: kv.Key, Revision: kv.ModRevision, Later: Unknown(&m)}
	var err error
	if x.HW, err = highWaterFromProto(m.GetHighWater()); err != nil {
		return ledger.ExclusiveDoc{}, err
	}
	for i, h := range m.GetHolders() {
		pod, err := uidFromProto(h)
		if err != nil {
			return ledger.ExclusiveDoc{}, fmt.Errorf("holder %d: %w", i, err)
		}
		x.Holders = append(x.Holders, ledger.Holder{
			PodUID: pod, Token: ledger.Token(h.GetToken()), NodeUID: h.GetNodeUid(), Items: h.GetItems(), Later: Unknown(h),
		})
	}
	return x, nil
}

// EncodePlan encodes the value of plan/<id>; the id and the revision are not part of it. A record that fails its Check
// is refused, so that every stored record can be read.
func EncodePlan(p ledger.PlanRecord) ([]byte, error) {
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("ledger: plan record: %w", err)
	}
	if p.Victims > math.MaxUint32 {
		return nil, fmt.Errorf("ledger: plan record %s: %d victims", p.ID, p.Victims)
	}
	m := &ledgerpb.Plan{
		Version: ledger.SchemaVersion, State: ledgerpb.PlanState(p.State), NodeUid: p.NodeUID,
		PodUid: p.PodUID, Shard: p.Shard, Victims: uint32(p.Victims),
	}
	RestoreUnknown(m, p.Later)
	return Marshal(m)
}

// DecodePlan decodes plan/<id> as stored. It refuses values of a later schema or in a state it does not know.
func DecodePlan(kv ledger.KV) (ledger.PlanRecord, error) {
	var m ledgerpb.Plan
	err := Unmarshal(kv.Value, &m, m.GetVersion)
	// A state that does not fit the type becomes one that Check refuses.
	p := ledger.PlanRecord{
		ID: strings.TrimPrefix(kv.Key, ledger.PrefixPlan), State: ledger.PlanState(min(max(m.GetState(), 0), math.MaxUint8)),
		NodeUID: m.GetNodeUid(), PodUID: m.GetPodUid(), Shard: m.GetShard(), Victims: int(m.GetVictims()),
		Revision: kv.ModRevision, Later: Unknown(&m),
	}
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return ledger.PlanRecord{}, fmt.Errorf("ledger: key %s at revision %d: %w", kv.Key, kv.ModRevision, err)
	}
	return p, nil
}
