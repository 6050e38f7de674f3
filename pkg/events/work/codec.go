package work

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/eventspb"
)

// EncodeRequest returns the bytes of w for SubjectWork.
func EncodeRequest(w Request) []byte {
	return events.Marshal(&eventspb.WorkRequest{
		Schema: events.SchemaVersion,
		Shard:  events.Valid(w.Shard),
		Window: w.Window,
		Renew:  events.ValidAll(w.Renew),
		Return: events.ValidAll(w.Return),

		Activate: events.ValidAll(w.Activate),
	})
}

// DecodeRequest decodes what EncodeRequest wrote. The error is a *DecodeError.
func DecodeRequest(data []byte) (Request, error) {
	var m eventspb.WorkRequest
	if err := decodeBus("WorkRequest", data, &m, m.GetSchema); err != nil {
		return Request{}, err
	}
	if m.GetShard() == "" {
		return Request{}, &events.DecodeError{Subject: "WorkRequest", Field: "shard", Want: "a member id"}
	}
	return Request{
		Shard: m.GetShard(), Window: m.GetWindow(), Renew: m.GetRenew(), Return: m.GetReturn(),
		Activate: m.GetActivate(),
	}, nil
}

// EncodeOffers returns the bytes of b for SubjectOffers + shard.
func EncodeOffers(b OfferBatch) []byte {
	m := &eventspb.OfferBatch{Schema: events.SchemaVersion, Queue: events.Valid(b.Queue), Term: b.Term}
	for _, o := range b.Offers {
		m.Offers = append(m.Offers, &eventspb.Offer{
			Pod: &eventspb.PodRef{
				Uid: events.Valid(o.Pod.UID), Namespace: events.Valid(o.Pod.Namespace), Name: events.Valid(o.Pod.Name),
			},
			Partition:    o.Partition,
			Token:        events.Valid(o.Token),
			Attempt:      o.Attempt,
			FactSequence: o.FactSequence,
			LeaseMillis:  o.LeaseMillis,
			TraceParent:  events.Valid(o.TraceParent),
			Cause:        events.Valid(o.Cause),
			WaitedMicros: o.Waited.Microseconds(),
		})
	}
	return events.Marshal(m)
}

// DecodeOffers decodes what EncodeOffers wrote. The error is a *DecodeError.
func DecodeOffers(data []byte) (OfferBatch, error) {
	var m eventspb.OfferBatch
	if err := decodeBus("OfferBatch", data, &m, m.GetSchema); err != nil {
		return OfferBatch{}, err
	}
	b := OfferBatch{Queue: m.GetQueue(), Term: m.GetTerm()}
	for _, o := range m.GetOffers() {
		pod := o.GetPod()
		b.Offers = append(b.Offers, Offer{
			Pod:          events.PodRef{UID: pod.GetUid(), Namespace: pod.GetNamespace(), Name: pod.GetName()},
			Partition:    o.GetPartition(),
			Token:        o.GetToken(),
			Attempt:      o.GetAttempt(),
			FactSequence: o.GetFactSequence(),
			LeaseMillis:  o.GetLeaseMillis(),
			TraceParent:  o.GetTraceParent(),
			Cause:        o.GetCause(),
			Waited:       time.Duration(o.GetWaitedMicros()) * time.Microsecond,
		})
	}
	return b, nil
}

// EncodeTurn returns the bytes of t for SubjectTurns.
func EncodeTurn(t Turn) []byte {
	return events.Marshal(&eventspb.Turn{
		Schema: events.SchemaVersion, Node: events.Valid(t.NodeUID), Shard: events.Valid(t.Shard), Granted: t.Granted,
	})
}

// DecodeTurn decodes what EncodeTurn wrote. The error is a *DecodeError.
func DecodeTurn(data []byte) (Turn, error) {
	var m eventspb.Turn
	if err := decodeBus("Turn", data, &m, m.GetSchema); err != nil {
		return Turn{}, err
	}
	for field, value := range map[string]string{"node": m.GetNode(), "shard": m.GetShard()} {
		if value == "" {
			return Turn{}, &events.DecodeError{Subject: "Turn", Field: field, Want: "an id"}
		}
	}
	return Turn{NodeUID: m.GetNode(), Shard: m.GetShard(), Granted: m.GetGranted()}, nil
}

// decodeBus decodes a bus message, which contains its schema version; schema reads that from m after decoding.
func decodeBus(name string, data []byte, m proto.Message, schema func() uint32) error {
	if err := proto.Unmarshal(data, m); err != nil {
		return &events.DecodeError{
			Subject: name, Field: "payload", Value: strconv.Itoa(len(data)) + " bytes",
			Want: "a " + name + " message: " + err.Error(),
		}
	}
	if version := schema(); !events.SchemaReadable(uint64(version)) {
		return &events.DecodeError{
			Subject: name, Field: eventlog.HeaderSchema, Value: strconv.FormatUint(uint64(version), 10),
			Want: events.SchemaWanted,
		}
	}
	return nil
}
