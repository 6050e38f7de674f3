package codec

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// Roles and states have the same numbers as in the wire form, so conversion is a cast; the lines below stop
// compiling when they drift apart.
var (
	_ = [1]struct{}{}[ledger.RoleReservation-ledger.Role(ledgerpb.Role_ROLE_RESERVATION)]
	_ = [1]struct{}{}[ledger.RoleMove-ledger.Role(ledgerpb.Role_ROLE_MOVE)]
	_ = [1]struct{}{}[ledger.Held-ledger.State(ledgerpb.State_STATE_HELD)]
	_ = [1]struct{}{}[ledger.Evicting-ledger.State(ledgerpb.State_STATE_EVICTING)]
	_ = [1]struct{}{}[ledger.FenceByNode-ledger.FenceCause(ledgerpb.FenceCause_FENCE_CAUSE_NODE)]
	_ = [1]struct{}{}[ledger.FenceByWant-ledger.FenceCause(ledgerpb.FenceCause_FENCE_CAUSE_WANTED)]
)

// EntryToProto returns the stored form of an entry.
func EntryToProto(e *ledger.Entry) *ledgerpb.Entry {
	m := &ledgerpb.Entry{
		Namespace: e.Namespace, Name: e.Name,
		Role: ledgerpb.Role(e.Role), State: ledgerpb.State(e.State),
		Priority: e.Priority, PodResourceVersion: e.PodRV, Token: uint64(e.Token),
		Shard: e.Shard, SchedulerName: e.SchedulerName,
		NonZeroCpu: e.NonZeroCPU, NonZeroMemory: e.NonZeroMemory,
		Gang: e.Gang, Plan: e.Plan, Wanted: e.Wanted, Budgets: e.Budgets, GroupPartition: uint32(e.GroupPartition),
		Wish: e.PlacementHash, Delegated: e.Delegated, FenceCause: ledgerpb.FenceCause(e.Cause),
		NotAfterMillis: e.NotAfterMillis(), Declined: e.Declined,
	}
	RestoreUnknown(m, e.Later)
	if e.Replacement != (ledger.Replacement{}) {
		m.Replacement = &ledgerpb.Replacement{Owner: e.Replacement.Owner, Template: e.Replacement.Template}
	}
	if raw, ok := uuidBytes(e.PodUID); ok {
		m.PodUid = raw
	} else {
		m.PodUidText = e.PodUID
	}
	m.Requests = make([]*ledgerpb.Quantity, 0, len(e.Requests))
	for _, name := range sortedKeys(e.Requests) {
		m.Requests = append(m.Requests, &ledgerpb.Quantity{Name: name, Amount: e.Requests[name]})
	}
	for _, p := range e.Ports {
		m.Ports = append(m.Ports, &ledgerpb.HostPort{Ip: p.IP, Protocol: p.Protocol, Port: p.Port})
	}
	for _, d := range e.Dependents {
		m.Dependents = append(m.Dependents, dependentToProto(d))
	}
	for _, v := range e.Volumes {
		pick := &ledgerpb.VolumePick{Claim: v.Claim, Volume: v.Volume, ClaimUid: v.ClaimUID, HasVolume: v.HasVolume}
		RestoreUnknown(pick, v.Later)
		m.Volumes = append(m.Volumes, pick)
	}
	for _, d := range e.Devices {
		pick := &ledgerpb.DevicePick{
			Claim: d.Claim, ClaimUid: d.ClaimUID, ClaimResourceVersion: d.ClaimRV, Allocation: d.Allocation,
			Spec: d.Spec, PodStatus: d.PodStatus, ConfigHashes: d.ConfigHashes,
		}
		RestoreUnknown(pick, d.Later)
		m.Devices = append(m.Devices, pick)
	}
	return m
}

// dependentToProto returns the stored form of a pod that relies on a keeper.
func dependentToProto(d ledger.Dependent) *ledgerpb.Dependent {
	m := &ledgerpb.Dependent{PodResourceVersion: d.PodRV}
	RestoreUnknown(m, d.Later)
	if raw, ok := uuidBytes(d.PodUID); ok {
		m.PodUid = raw
	} else {
		m.PodUidText = d.PodUID
	}
	return m
}

// entryFromProto returns an entry from its stored form. It refuses roles and states that this version does not know: a
// member that treated one as another could bind or evict a pod that it must not.
func entryFromProto(m *ledgerpb.Entry) (ledger.Entry, error) {
	e := ledger.Entry{
		Namespace: m.GetNamespace(), Name: m.GetName(),
		Priority: m.GetPriority(), PodRV: m.GetPodResourceVersion(), Token: ledger.Token(m.GetToken()),
		Shard: m.GetShard(), SchedulerName: m.GetSchedulerName(),
		NonZeroCPU: m.GetNonZeroCpu(), NonZeroMemory: m.GetNonZeroMemory(),
		Gang: m.GetGang(), Plan: m.GetPlan(), Wanted: m.GetWanted(), Budgets: m.GetBudgets(),
		PlacementHash: m.GetWish(), Delegated: m.GetDelegated(), Cause: causeFromProto(m.GetFenceCause()), Later: Unknown(m),
		Replacement: ledger.Replacement{
			Owner: m.GetReplacement().GetOwner(), Template: m.GetReplacement().GetTemplate(),
		},
		NotAfter: timeOf(m.GetNotAfterMillis()), Declined: m.GetDeclined(),
	}
	if m.GetGroupPartition() > ledger.Partitions {
		return ledger.Entry{}, fmt.Errorf("pod %s/%s: partition %d of its group, want at most %d",
			e.Namespace, e.Name, m.GetGroupPartition()-1, ledger.Partitions-1)
	}
	e.GroupPartition = int32(m.GetGroupPartition())
	var err error
	if e.PodUID, err = uidFromProto(m); err != nil {
		return ledger.Entry{}, err
	}
	if r := m.GetRole(); r < ledgerpb.Role_ROLE_RESERVATION || r > ledgerpb.Role_ROLE_MOVE {
		return ledger.Entry{}, fmt.Errorf("pod %s: unknown role %d", e.PodUID, r)
	}
	if s := m.GetState(); s < ledgerpb.State_STATE_UNSPECIFIED || s > ledgerpb.State_STATE_EVICTING {
		return ledger.Entry{}, fmt.Errorf("pod %s: unknown state %d", e.PodUID, s)
	}
	e.Role, e.State = ledger.Role(m.GetRole()), ledger.State(m.GetState())
	for _, q := range m.GetRequests() {
		if e.Requests == nil {
			e.Requests = make(map[string]int64, len(m.GetRequests()))
		}
		if _, twice := e.Requests[q.GetName()]; twice {
			return ledger.Entry{}, fmt.Errorf("pod %s: request of %q is given twice", e.PodUID, q.GetName())
		}
		e.Requests[q.GetName()] = q.GetAmount()
	}
	for _, p := range m.GetPorts() {
		e.Ports = append(e.Ports, ledger.HostPort{IP: p.GetIp(), Protocol: p.GetProtocol(), Port: p.GetPort()})
	}
	for _, v := range m.GetVolumes() {
		e.Volumes = append(e.Volumes, ledger.VolumePick{
			Claim: v.GetClaim(), Volume: v.GetVolume(), ClaimUID: v.GetClaimUid(), HasVolume: v.GetHasVolume(),
			Later: Unknown(v),
		})
	}
	for _, d := range m.GetDevices() {
		e.Devices = append(e.Devices, ledger.DevicePick{
			Claim: d.GetClaim(), ClaimUID: d.GetClaimUid(), ClaimRV: d.GetClaimResourceVersion(), Allocation: d.GetAllocation(),
			Spec: d.GetSpec(), PodStatus: d.GetPodStatus(), ConfigHashes: d.GetConfigHashes(), Later: Unknown(d),
		})
	}
	for i, d := range m.GetDependents() {
		uid, err := uidFromProto(d)
		if err != nil {
			return ledger.Entry{}, fmt.Errorf("pod %s: dependent %d: %w", e.PodUID, i, err)
		}
		e.Dependents = append(e.Dependents, ledger.Dependent{PodUID: uid, PodRV: d.GetPodResourceVersion(),
			Later: Unknown(d)})
	}
	return e, nil
}

// timeOf returns the zero time for 0, which stands for no bound.
func timeOf(millis int64) time.Time {
	if millis <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

// causeFromProto treats a cause that does not fit as unknown: it is no reason to refuse a document.
func causeFromProto(c ledgerpb.FenceCause) ledger.FenceCause {
	if c < 0 || c > math.MaxUint8 {
		return 0
	}
	return ledger.FenceCause(c)
}

// withUID is a message that names a pod.
type withUID interface {
	GetPodUid() []byte
	GetPodUidText() string
}

// uidFromProto accepts exactly one of the two forms of a UID.
func uidFromProto(m withUID) (string, error) {
	raw, text := m.GetPodUid(), m.GetPodUidText()
	switch {
	case len(raw) == 16 && text == "":
		return uuidString(raw), nil
	case len(raw) == 0 && text != "":
		return text, nil
	}
	return "", errors.New("want a pod UID, either as 16 bytes or as text")
}

// uuidBytes returns the 16 bytes of a UID if it has the text form that uuidString produces: lower-case hex,
// 8-4-4-4-12. Other UIDs (such as those of static pods) stay text.
func uuidBytes(uid string) ([]byte, bool) {
	raw, err := hex.DecodeString(strings.ReplaceAll(uid, "-", ""))
	return raw, err == nil && len(raw) == 16 && uuidString(raw) == uid
}

func uuidString(raw []byte) string {
	text := make([]byte, 0, 36)
	text = hex.AppendEncode(text, raw[:4])
	for _, group := range [][]byte{raw[4:6], raw[6:8], raw[8:10], raw[10:]} {
		text = hex.AppendEncode(append(text, '-'), group)
	}
	return string(text)
}
