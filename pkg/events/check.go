package events

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// CheckAppend returns an error when msgs cannot be appended to s in one call. Every Log refuses such an append
// before it does anything. The error is an *ErrRefused.
func CheckAppend(s eventlog.Stream, msgs []eventlog.Message) error {
	refuse := func(message int, reason string, args ...any) error {
		return &eventlog.ErrRefused{Stream: s, Message: message, Reason: fmt.Sprintf(reason, args...)}
	}
	if err := s.Check(); err != nil {
		return refuse(-1, "%v", err)
	}
	if len(msgs) == 0 || len(msgs) > eventlog.MaxBatch {
		return refuse(-1, "append of %d messages, want 1 to %d", len(msgs), eventlog.MaxBatch)
	}
	for i := range msgs {
		subject := msgs[i].Subject
		if err := CheckSubject(subject); err != nil {
			return refuse(i, "%v", err)
		}
		if !strings.HasPrefix(subject, s.Prefix()+".") {
			return refuse(i, "subject %q, want %s.…", subject, s.Prefix())
		}
		if size := msgs[i].Size(); size > eventlog.MaxMessage {
			return refuse(i, "%s has %d bytes, want at most %d", subject, size, eventlog.MaxMessage)
		}
	}
	return nil
}

// CheckSubject returns an error when subject is not a dotted name without wildcards, blanks
// and empty tokens.
func CheckSubject(subject string) error {
	if strings.ContainsFunc(subject, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '*' || r == '>' }) ||
		slices.Contains(strings.Split(subject, "."), "") {
		return fmt.Errorf("events: subject %q, want tokens separated by dots, without blanks and wildcards", subject)
	}
	return nil
}

// kinds is the set of Kind that this version knows. A kind that is missing here is left out by readers of this
// version.
var kinds = map[Kind]bool{
	KindPod: true, KindNode: true, KindNamespace: true, KindPriorityClass: true,
	KindDisruptionBudget: true, KindPersistentVolume: true, KindVolumeClaim: true,
	KindService: true, KindReplicaSet: true, KindStatefulSet: true, KindReplicationController: true,
	KindNodeMetrics: true, KindPodMetrics: true,
	KindStorageClass: true, KindCSINode: true, KindCSIDriver: true, KindStorageCapacity: true,
	KindVolumeAttachment: true, KindResourceClaim: true, KindResourceSlice: true, KindDeviceClass: true,
	KindDeviceTaintRule: true, KindPodGroup: true,
}

// Kinds iterates over all kinds that this version knows, in no order.
func Kinds() iter.Seq[Kind] { return maps.Keys(kinds) }

// Known reports whether this version knows the kind. Facts of other kinds come from a later version that runs at
// the same time as this one during an upgrade: they are read, and ignored.
func (k Kind) Known() bool { return kinds[k] }

// decisionKinds is the set of DecisionKind that this version knows.
var decisionKinds = map[DecisionKind]bool{
	DecisionPlaced: true, DecisionUnplaceable: true, DecisionFailed: true, DecisionEvict: true,
	DecisionBound: true, DecisionReleased: true, DecisionCondition: true, DecisionEvicted: true,
	DecisionEvictRefused: true, DecisionQuarantined: true, DecisionUngate: true, DecisionRejected: true,
	DecisionNominated: true, DecisionWithdrawn: true, DecisionLost: true, DecisionReturned: true,
	DecisionHeldBack: true, DecisionFenceRefused: true, DecisionEvictBackground: true,
}

// Known reports whether this version knows the kind; see Kind.Known.
func (k DecisionKind) Known() bool { return decisionKinds[k] }

// maxKind is longer than any kind will be.
const maxKind = 64

// wantedKind describes the form of a kind, in this version and in later ones.
const wantedKind = "a kind: lower case letters, digits and hyphens"

// isKind reports whether a word has the form of a kind.
func isKind(word string) bool {
	return word != "" && len(word) <= maxKind && !strings.ContainsFunc(word, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}
