package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

const (
	// Format and Version are in the first line of every history. A reader refuses other values.
	Format  = "berth-history"
	Version = 1
	// maxLine bounds one line of a history: the largest document of the ledger, or object of the API server, in
	// base64, with some reserve.
	maxLine = 16 << 20
)

// Record is one line of a history: exactly one of its fields is set. A file consists of lines of JSON, the first of
// which is a Header, in the order in which the recorder received the changes; each kind of object, and the ledger,
// is in its own order.
type Record struct {
	Header *Header `json:"header,omitempty"`
	Ledger *Ledger `json:"ledger,omitempty"`
	Object *Object `json:"object,omitempty"`
	Mark   *Mark   `json:"mark,omitempty"`
	End    *End    `json:"end,omitempty"`
}

// Header opens a history.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Cluster is the UID of the cluster's kube-system namespace; Prefix is the ledger's key prefix in etcd.
	Cluster string `json:"cluster,omitempty"`
	Prefix  string `json:"prefix,omitempty"`
}

// Ledger holds changes of the ledger, in whole revisions.
type Ledger struct {
	// Revision is that of the last change, or of the list.
	Revision int64 `json:"revision"`
	// Listed means that Events is the complete content at Revision. The first Ledger of a history is listed; a
	// later listed one means that revisions before it were missed.
	Listed bool          `json:"listed,omitempty"`
	Events []LedgerEvent `json:"events,omitempty"`
}

// LedgerEvent is one change of one key.
type LedgerEvent struct {
	Key     string `json:"key"`
	Value   []byte `json:"value,omitempty"`
	Create  int64  `json:"create,omitempty"`
	Mod     int64  `json:"mod"`
	Lease   int64  `json:"lease,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}

// KV returns the event in the form that the ledger's codec decodes.
func (e LedgerEvent) KV() ledger.KV {
	return ledger.KV{
		Key: e.Key, Value: e.Value, CreateRevision: e.Create, ModRevision: e.Mod, Lease: e.Lease,
	}
}

// FromLedger converts a ledger event, including deletions; it is the inverse of KV.
func FromLedger(ev ledger.Event) LedgerEvent {
	return LedgerEvent{
		Key: ev.Key, Value: ev.Value, Create: ev.CreateRevision, Mod: ev.ModRevision,
		Lease: ev.Lease, Deleted: ev.Deleted,
	}
}

// Object is one version of one object of the API server, stripped of the fields that no rule reads. One of the
// pointers is set, unless it is Gone. A version that differs from the previous one only in its resourceVersion is
// left out.
type Object struct {
	Kind Kind   `json:"kind"`
	UID  string `json:"uid"`
	// RV is the resourceVersion of this version; for a deletion, the resourceVersion at which it happened.
	RV uint64 `json:"rv"`
	// Missed means that the recorder did not see the change but found its result in a list. It happened after
	// After, and at RV at the latest; objects that existed when the recording began have After 0.
	Missed    bool              `json:"missed,omitempty"`
	After     uint64            `json:"after,omitempty"`
	Gone      bool              `json:"gone,omitempty"`
	Pod       *corev1.Pod       `json:"pod,omitempty"`
	Node      *corev1.Node      `json:"node,omitempty"`
	Namespace *corev1.Namespace `json:"namespace,omitempty"`
	Budget    *Budget           `json:"budget,omitempty"`
	// Claim, Volume and DeviceClaim are the objects through which pods use volumes and devices.
	Claim       *corev1.PersistentVolumeClaim `json:"claim,omitempty"`
	Volume      *corev1.PersistentVolume      `json:"volume,omitempty"`
	DeviceClaim *resourcev1.ResourceClaim     `json:"deviceClaim,omitempty"`
	PodGroup    *PodGroup                     `json:"podGroup,omitempty"`
}

// Budget is a PodDisruptionBudget.
type Budget = policyv1.PodDisruptionBudget

// PodGroup is a group of pods that are scheduled together, which only clusters with the gate GenericWorkload have.
type PodGroup = schedulingv1alpha2.PodGroup

// Kind is the kind of an object.
type Kind string

// The kinds that histories hold.
const (
	KindPod         Kind = "pod"
	KindNode        Kind = "node"
	KindNamespace   Kind = "namespace"
	KindBudget      Kind = "poddisruptionbudget"
	KindVolumeClaim Kind = "persistentvolumeclaim"
	KindVolume      Kind = "persistentvolume"
	KindDeviceClaim Kind = "resourceclaim"
	KindPodGroup    Kind = "podgroup"
)

// Mark relates the two orders: the ledger up to revision Ledger came before the API server beyond resourceVersion
// Objects, and the API server up to Objects came before the ledger beyond Until.
type Mark struct {
	Ledger  int64  `json:"ledger"`
	Objects uint64 `json:"objects"`
	Until   int64  `json:"until"`
	// Unix is the recorder's clock, in milliseconds, for people and for bounds in the order of minutes.
	Unix int64 `json:"unix,omitempty"`
}

// EndStopped is the End's reason when nothing went wrong.
const EndStopped = "stopped"

// End closes a history that was not cut off: it holds every change of the API server up to Objects, and of the
// ledger up to Ledger, which was read after that.
type End struct {
	Objects uint64 `json:"objects"`
	Ledger  int64  `json:"ledger"`
	// Reason is EndStopped, or the reason why the recording could not be completed in this way; then the last mark
	// marks the point up to which the two orders are related. The recorder may also have stopped by itself.
	Reason string `json:"reason"`
}

// Writer writes a history, up to a number of bytes. It is not safe for concurrent use.
type Writer struct {
	out     *bufio.Writer
	limit   int64
	written int64
}

// ErrFull reports that a history has reached its size limit; only its End is written after that.
var ErrFull = errors.New("audit: history size limit reached")

// NewWriter writes the header, with Format and Version filled in. limit is in bytes, that of the header included; 0
// means no limit. The caller owns w, and closes it after Flush.
func NewWriter(w io.Writer, limit int64, h Header) (*Writer, error) {
	h.Format, h.Version = Format, Version
	out := &Writer{out: bufio.NewWriter(w), limit: limit}
	return out, out.Write(Record{Header: &h})
}

// Write appends one record. It returns ErrFull once the limit is reached, without writing the record; the history is
// then intact up to the record before. An End is always written, so that a full history can be closed. Records are
// buffered until Flush.
func (w *Writer) Write(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("audit: record: %w", err)
	}
	if w.limit > 0 && r.End == nil && w.written+int64(len(line)) >= w.limit {
		return ErrFull
	}
	w.written += int64(len(line)) + 1
	if _, err := w.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("audit: record: %w", err)
	}
	return nil
}

// Flush passes everything written so far to the file.
func (w *Writer) Flush() error { return w.out.Flush() }

// Read calls f with every record of a history, the header first. A truncated last line, as a crash of the recorder
// leaves it, ends the history without an error. An error names the line, and ends the reading; so does an error of f.
func Read(r io.Reader, f func(Record) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	lines.Split(wholeLines)
	for n := 1; ; n++ {
		if !lines.Scan() {
			switch err := lines.Err(); {
			case errors.Is(err, bufio.ErrTooLong):
				return fmt.Errorf("audit: line %d: want at most %d bytes", n, maxLine)
			case err != nil:
				return fmt.Errorf("audit: line %d: %w", n, err)
			case n == 1:
				return fmt.Errorf("audit: line 1: the file is empty or has no header, want format %s", Format)
			}
			return nil
		}
		var record Record
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return fmt.Errorf("audit: line %d: %w", n, err)
		}
		if err := checkRecord(n, record); err != nil {
			return fmt.Errorf("audit: line %d: %w", n, err)
		}
		if err := f(record); err != nil {
			return fmt.Errorf("audit: line %d: %w", n, err)
		}
	}
}

// wholeLines is a bufio.SplitFunc for lines that end in a newline; it drops a last line without one.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// checkRecord checks what the format requires of line n, counted from 1.
func checkRecord(n int, r Record) error {
	h := r.Header
	switch {
	case n == 1 && (h == nil || h.Format != Format):
		return fmt.Errorf("not a history, want a header with format %s", Format)
	case n == 1 && h.Version != Version:
		return fmt.Errorf("history has version %d, want version %d", h.Version, Version)
	case n > 1 && h != nil:
		return errors.New("second header")
	case h == nil && r.Ledger == nil && r.Object == nil && r.Mark == nil && r.End == nil:
		return errors.New("record without a known kind")
	}
	return nil
}
