package events

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/eventspb"
)

// EncodeDecision returns the message that carries d. Equal decisions give equal bytes. In text that is not valid
// UTF-8 the invalid bytes are replaced by U+FFFD. Texts, lists and Evidence are cut to bounds (see MaxText); a cut
// text states how much was left out.
func EncodeDecision(d Decision) eventlog.Message {
	payload := &eventspb.Decision{
		SchedulerName:      word(d.SchedulerName),
		Actor:              word(d.Actor),
		Attempt:            d.Attempt,
		Token:              word(d.Token),
		FactSequence:       d.FactSequence,
		LedgerRevision:     d.LedgerRevision,
		PodResourceVersion: d.PodResourceVersion,
		NodeUid:            word(d.NodeUID),
		NodeName:           word(d.NodeName),
		Message:            shorten(Valid(d.Message), MaxText),
		Plugins:            words(d.Plugins),
		Reasons:            encodeReasons(d.Reasons),
		NodesTotal:         d.NodesTotal,
		NodesFeasible:      d.NodesFeasible,
		Seed:               d.Seed,
		Strategy:           word(d.Strategy),
		GracePeriodSeconds: d.GracePeriodSeconds,
		Owner:              word(d.Owner),
		Landing:            word(d.Landing),
		FactEpoch:          d.FactEpoch,
		Evidence:           encodeEvidence(d.Evidence),
		RetryAfterMillis:   d.RetryAfter.Milliseconds(),
		YoungestSeconds:    encodeSecond(d.Youngest),
		TellFailure:        d.EventOnFailure,
		NotAfterMillis:     encodeMilli(d.NotAfter),
		StaleNomination:    word(d.StaleNomination),
		Withheld:           words(d.Withheld),
	}
	return eventlog.Message{
		Subject: eventlog.SubjectDecisions + "." + bucketOf(d.Pod.UID) + "." + subjectToken(string(d.Kind)),
		Header: newHeader(
			string(d.Kind), d.Pod.UID, d.Pod.Namespace, d.Pod.Name, shorten(d.TraceParent, maxWord)).fields,
		Data: Marshal(payload),
	}
}

// DecodeDecision decodes what EncodeDecision wrote, now, in an earlier version, or in a later one of the same
// schema; in the last case the kind may be one that is not Known. The error is a *DecodeError. A record whose
// subject is not that of its kind is an error too.
func DecodeDecision(r eventlog.Record) (SequencedDecision, error) {
	d, evidence, err := decodeDecision(r)
	if err != nil || evidence == nil {
		return d, err
	}
	var message eventspb.Evidence
	if err := proto.Unmarshal(evidence, &message); err != nil {
		wrong := decoder{record: r}
		wrong.fail("evidence", strconv.Itoa(len(evidence))+" bytes", "an Evidence message: "+err.Error())
		return SequencedDecision{}, wrong.err
	}
	d.Evidence = decodeEvidence(&message)
	return d, nil
}

// DecodeOutcome is DecodeDecision without the Evidence, which takes longer to decode than everything else and is
// only for human readers and for replays.
func DecodeOutcome(r eventlog.Record) (SequencedDecision, error) {
	d, _, err := decodeDecision(r)
	return d, err
}

// decodeDecision returns the evidence undecoded.
func decodeDecision(r eventlog.Record) (_ SequencedDecision, evidence []byte, _ error) {
	d := decoder{record: r}
	d.schema()
	kind := DecisionKind(d.text(eventlog.HeaderKind))
	pod := PodRef{UID: d.text(eventlog.HeaderUID), Namespace: d.text(eventlog.HeaderNamespace),
		Name: d.text(eventlog.HeaderName)}
	traceParent := d.text(eventlog.HeaderTraceParent)
	if !isKind(string(kind)) {
		d.fail(eventlog.HeaderKind, string(kind), wantedKind)
	}
	d.checkSubject(eventlog.SubjectDecisions+".", "."+subjectToken(string(kind)))
	if pod.UID == "" {
		d.fail(eventlog.HeaderUID, "", "the pod's uid")
	}
	var payload eventspb.Decision
	if err := proto.Unmarshal(r.Data, &payload); err != nil {
		d.fail("payload", strconv.Itoa(len(r.Data))+" bytes", "a Decision message: "+err.Error())
	}
	if d.err != nil {
		return SequencedDecision{}, nil, d.err
	}
	return SequencedDecision{Sequence: r.Sequence, Decision: Decision{
		Kind:               kind,
		Pod:                pod,
		SchedulerName:      payload.GetSchedulerName(),
		Actor:              payload.GetActor(),
		Attempt:            payload.GetAttempt(),
		Token:              payload.GetToken(),
		FactSequence:       payload.GetFactSequence(),
		LedgerRevision:     payload.GetLedgerRevision(),
		PodResourceVersion: payload.GetPodResourceVersion(),
		NodeUID:            payload.GetNodeUid(),
		NodeName:           payload.GetNodeName(),
		Message:            payload.GetMessage(),
		Plugins:            payload.GetPlugins(),
		Reasons:            decodeReasons(payload.GetReasons()),
		NodesTotal:         payload.GetNodesTotal(),
		NodesFeasible:      payload.GetNodesFeasible(),
		Seed:               payload.GetSeed(),
		Strategy:           payload.GetStrategy(),
		GracePeriodSeconds: payload.GracePeriodSeconds,
		Owner:              payload.GetOwner(),
		Landing:            payload.GetLanding(),
		FactEpoch:          payload.GetFactEpoch(),
		RetryAfter:         time.Duration(payload.GetRetryAfterMillis()) * time.Millisecond,
		Youngest:           decodeSecond(payload.GetYoungestSeconds()),
		EventOnFailure:     payload.GetTellFailure(),
		NotAfter:           decodeMilli(payload.GetNotAfterMillis()),
		StaleNomination:    payload.GetStaleNomination(),
		Withheld:           payload.GetWithheld(),
		TraceParent:        traceParent,
	}}, payload.GetEvidence(), nil
}

// encodeSecond returns 0 for the zero time, and for times before 1970.
func encodeSecond(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.Unix(), 0)
}

// decodeSecond returns the zero time for 0, and otherwise a time in UTC.
func decodeSecond(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// encodeMilli returns 0 for the zero time, and for times before 1970.
func encodeMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.UnixMilli(), 0)
}

// decodeMilli returns the zero time for 0, and otherwise a time in UTC.
func decodeMilli(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

// encodeReasons sorts, because a protobuf map has no order and equal decisions must be equal bytes. It combines the
// reasons that have no room into one, with the nodes of all of them.
func encodeReasons(reasons map[string]int32) []*eventspb.ReasonCount {
	if len(reasons) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(reasons))
	kept := within(names, maxReasons)
	list := make([]*eventspb.ReasonCount, 0, kept+1)
	for _, reason := range names[:kept] {
		list = append(list, &eventspb.ReasonCount{Reason: shorten(Valid(reason), maxReason), Nodes: reasons[reason]})
	}
	if kept == len(names) {
		return list
	}
	rest := &eventspb.ReasonCount{Reason: fmt.Sprintf("%d more reasons left out", len(names)-kept)}
	for _, reason := range names[kept:] {
		rest.Nodes = saturated(rest.Nodes, reasons[reason])
	}
	return append(list, rest)
}

// saturated returns a sum that stays within its type.
func saturated(a, b int32) int32 { return int32(min(int64(a)+int64(b), math.MaxInt32)) }

// decodeReasons adds up the counts of a reason that occurs twice, which is possible only for repaired text.
func decodeReasons(list []*eventspb.ReasonCount) map[string]int32 {
	if len(list) == 0 {
		return nil
	}
	reasons := make(map[string]int32, len(list))
	for _, count := range list {
		reasons[count.GetReason()] += count.GetNodes()
	}
	return reasons
}

// Marshal cannot fail for messages without required fields whose text is valid. If it ever did, the broken payload
// makes every reader report an error, whereas an empty one would look like a message without content.
func Marshal(m proto.Message) []byte {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return []byte{0xff}
	}
	return data
}

// Valid returns s as text that protobuf accepts.
func Valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// ValidAll returns the strings with bytes that are not UTF-8 replaced.
func ValidAll(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = Valid(s)
	}
	return out
}
