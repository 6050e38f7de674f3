package memory

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-scheduler/berth/pkg/events"

	"github.com/berth-scheduler/berth/services/queue/decide/quota"
)

// Memory is a replica's knowledge of the attempts when it stopped.
type Memory struct {
	Head
	// Live holds the UIDs of pods with a reservation.
	Live []string
	Pods []Pod
	// Leaving holds the pods that were let go and still have their quota gate, by UID.
	Leaving map[string]quota.DecidedAt
	// Complete means that Leaving names all of them. Earlier versions named none: then the decisions from before the
	// memory must be read too, as far back as they are kept; of those, only decisions to let pods go count.
	Complete bool
}

// Head is the position that a memory stands for.
type Head struct {
	// Decisions is the last sequence of the decisions log, and Stored when the log stored that record; zero if that is
	// not known.
	Decisions uint64
	Stored    time.Time
	// Facts and Epoch are the position in the facts, and Ledger is the revision of the ledger.
	Facts, Epoch uint64
	Ledger       int64
}

// Pod is the state of the attempts at one pod. The fields are those of waiting.Attempt, Verdict and Await that
// outlive a replica; leases do not.
type Pod struct {
	UID string
	// Attempts is the number of the last attempt, and Answered that of the last attempt whose answer is known.
	Attempts, Answered int32
	// Lost counts leases in a row that ended without an answer, Released reservations that ended without a bind.
	Lost, Released int16
	// Rejections counts the rejections, and Errors the errors in a row.
	Rejections, Errors int32
	// Kind, Message and Plugins are the last answer, and Facts and Ledger the state it was computed from.
	Kind    events.DecisionKind
	Message string
	Plugins []string
	Facts   uint64
	Ledger  int64
	// Parked means that nothing up to the memory's position could help the pod.
	Parked bool
	// Waits means that the last answer's condition has not shown in the facts, and Version is the resourceVersion to
	// wait for; 0 if it is not known.
	Waits   bool
	Version uint64
}

// A memory is one protobuf message:
//
//	message Memory {
//	  uint64 version = 1;           // first, so that a reader can refuse before it trusts the rest
//	  uint64 decisions = 2;         // sequences and revision that it stands for
//	  uint64 facts = 3;
//	  uint64 ledger = 4;
//	  repeated string texts = 5;    // pods refer to them by number, from 1
//	  repeated string live = 6;     // UIDs of pods with a reservation
//	  repeated Pod pods = 7;
//	  uint64 epoch = 8;             // of the facts
//	  repeated Leaving leaving = 9; // pods that were let go and still have their quota gate
//	  bool complete = 10;           // all of them are named; earlier versions name none
//	  uint64 stored = 11;           // when the log stored the record of decisions, in nanoseconds since 1970
//	}
//	message Leaving { string uid = 1; uint64 facts = 2, epoch = 3; }
//	message Pod {
//	  string uid = 1; uint64 attempts = 2, lost = 3, rejections = 4, errors = 5, released = 6;
//	  uint64 kind = 7, message = 8; repeated uint64 plugins = 9;   // numbers of texts
//	  uint64 facts = 10, ledger = 11; bool parked = 12, waits = 13; uint64 version = 14;
//	  uint64 answered = 15;
//	}
const version = 1

const (
	versionField   = protowire.Number(1)
	decisionsField = protowire.Number(2)
	factsField     = protowire.Number(3)
	ledgerField    = protowire.Number(4)
	textField      = protowire.Number(5)
	liveField      = protowire.Number(6)
	podField       = protowire.Number(7)
	epochField     = protowire.Number(8)
	leavingField   = protowire.Number(9)
	completeField  = protowire.Number(10)
	storedField    = protowire.Number(11)
)

const (
	leavingUIDField = protowire.Number(iota + 1)
	leavingFactsField
	leavingEpochField
)

const (
	podUIDField = protowire.Number(iota + 1)
	podAttemptsField
	podLostField
	podRejectionsField
	podErrorsField
	podReleasedField
	podKindField
	podMessageField
	podPluginField
	podFactsField
	podLedgerField
	podParkedField
	podWaitsField
	podVersionField
	podAnsweredField
)
