package registry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// Kinds have the same numbers as in the wire form; these lines stop compiling when they drift apart.
var (
	_ = [1]struct{}{}[TermApart-TermKind(ledgerpb.TermKind_TERM_KIND_APART)]
	_ = [1]struct{}{}[TermTogether-TermKind(ledgerpb.TermKind_TERM_KIND_TOGETHER)]
)

// EncodeTerm encodes the value of t/<id>; equal terms have equal bytes. The revision is not part of it.
func EncodeTerm(t RegisteredTerm) ([]byte, error) {
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("ledger: term: %w", err)
	}
	c := t.Canonical()
	m := &ledgerpb.Term{
		Version: ledger.SchemaVersion, Kind: ledgerpb.TermKind(c.Kind), TopologyKey: c.TopologyKey, Retiring: t.Retiring,
		Namespace: t.Namespace,
	}
	codec.RestoreUnknown(m, t.Later)
	for _, p := range c.Parts {
		part := &ledgerpb.TermPart{Namespaces: p.Namespaces, Selector: requirementsToProto(p.Selector)}
		if p.ByLabel {
			part.NamespaceSelector = &ledgerpb.NamespaceSelector{Requirements: requirementsToProto(p.NamespaceSelector)}
		}
		m.Parts = append(m.Parts, part)
	}
	return codec.Marshal(m)
}

// DecodeTerm decodes t/<id> as stored. It refuses values of a later schema, of a kind it does not know, or whose id
// is not the key's: a member that misread a term would not use its guards.
func DecodeTerm(kv ledger.KV) (TermID, RegisteredTerm, error) {
	id := TermID(strings.TrimPrefix(kv.Key, PrefixTerm))
	t, err := decodeTerm(kv.Value)
	if err == nil && t.ID() != id {
		err = fmt.Errorf("value is of term %s", t.ID())
	}
	if err != nil {
		return "", RegisteredTerm{}, fmt.Errorf("ledger: key %s at revision %d: %w", kv.Key, kv.ModRevision, err)
	}
	t.Revision = kv.ModRevision
	return id, t, nil
}

func decodeTerm(value []byte) (RegisteredTerm, error) {
	var m ledgerpb.Term
	if err := codec.Unmarshal(value, &m, m.GetVersion); err != nil {
		return RegisteredTerm{}, err
	}
	if k := m.GetKind(); k < ledgerpb.TermKind_TERM_KIND_APART || k > ledgerpb.TermKind_TERM_KIND_TOGETHER {
		return RegisteredTerm{}, fmt.Errorf("unknown kind %d", k)
	}
	t := RegisteredTerm{
		Term:     Term{Kind: TermKind(m.GetKind()), TopologyKey: m.GetTopologyKey()},
		Retiring: m.GetRetiring(), Namespace: m.GetNamespace(), Later: codec.Unknown(&m),
	}
	for _, p := range m.GetParts() {
		part := TermPart{Namespaces: p.GetNamespaces(), Selector: requirementsFromProto(p.GetSelector())}
		if s := p.GetNamespaceSelector(); s != nil {
			part.ByLabel, part.NamespaceSelector = true, requirementsFromProto(s.GetRequirements())
		}
		t.Parts = append(t.Parts, part)
	}
	return t, t.check()
}

func requirementsToProto(selector []Requirement) []*ledgerpb.Requirement {
	var out []*ledgerpb.Requirement
	for _, r := range selector {
		out = append(out, &ledgerpb.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	return out
}

func requirementsFromProto(selector []*ledgerpb.Requirement) []Requirement {
	var out []Requirement
	for _, r := range selector {
		out = append(out, Requirement{Key: r.GetKey(), Operator: r.GetOperator(), Values: r.GetValues()})
	}
	return out
}

// EncodeRegistry encodes the value of t/reg; the revision is not part of it.
func EncodeRegistry(r Registry) ([]byte, error) {
	m := &ledgerpb.TermRegistry{Version: ledger.SchemaVersion, PodHighWater: r.PodRV}
	codec.RestoreUnknown(m, r.Later)
	return codec.Marshal(m)
}

// DecodeRegistry decodes what EncodeRegistry writes.
func DecodeRegistry(kv ledger.KV) (Registry, error) {
	var m ledgerpb.TermRegistry
	if err := codec.Unmarshal(kv.Value, &m, m.GetVersion); err != nil {
		return Registry{}, fmt.Errorf("ledger: key %s: %w", kv.Key, err)
	}
	return Registry{Revision: kv.ModRevision, PodRV: m.GetPodHighWater(), Later: codec.Unknown(&m)}, nil
}

// encodeGuard encodes the value of a guard: the pod that moved it last, for human readers.
func encodeGuard(podUID string, token ledger.Token) ([]byte, error) {
	if podUID == "" {
		return nil, errors.New("ledger: guard: no pod moves it")
	}
	return codec.Marshal(&ledgerpb.Guard{Version: ledger.SchemaVersion, PodUid: podUID, Token: uint64(token)})
}
