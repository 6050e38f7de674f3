package memory

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-scheduler/berth/services/queue/decide/quota"
)

// Writer encodes a memory. The order of calls: NewWriter, any number of Live, Leaving and Pod, Finish.
type Writer struct{ encoder encoder }

// NewWriter returns a writer that has written the head.
func NewWriter(h Head) *Writer {
	w := &Writer{encoder: encoder{texts: map[string]uint64{}}}
	w.encoder.number(versionField, version)
	w.encoder.number(decisionsField, h.Decisions)
	if !h.Stored.IsZero() {
		w.encoder.number(storedField, uint64(h.Stored.UnixNano()))
	}
	w.encoder.number(factsField, h.Facts)
	w.encoder.number(epochField, h.Epoch)
	w.encoder.number(ledgerField, uint64(h.Ledger))
	return w
}

// Live writes a pod with a reservation.
func (w *Writer) Live(uid string) { w.encoder.text(liveField, uid) }

// Leaving writes a pod that was let go.
func (w *Writer) Leaving(uid string, decided quota.DecidedAt) {
	var e encoder
	e.text(leavingUIDField, uid)
	e.number(leavingFactsField, decided.Sequence)
	e.number(leavingEpochField, decided.Epoch)
	w.encoder.message(leavingField, e.data)
}

// Pod writes a pod.
func (w *Writer) Pod(p *Pod) {
	kind, message := w.encoder.refer(string(p.Kind)), w.encoder.refer(p.Message)
	plugins := make([]uint64, len(p.Plugins))
	for i, name := range p.Plugins {
		plugins[i] = w.encoder.refer(name)
	}
	var e encoder
	e.text(podUIDField, p.UID)
	e.number(podAttemptsField, uint64(p.Attempts))
	e.number(podAnsweredField, uint64(p.Answered))
	e.number(podLostField, uint64(p.Lost))
	e.number(podRejectionsField, uint64(p.Rejections))
	e.number(podErrorsField, uint64(p.Errors))
	e.number(podReleasedField, uint64(p.Released))
	e.number(podKindField, kind)
	e.number(podMessageField, message)
	for _, n := range plugins {
		e.number(podPluginField, n)
	}
	e.number(podFactsField, p.Facts)
	e.number(podLedgerField, uint64(p.Ledger))
	e.number(podParkedField, protowire.EncodeBool(p.Parked))
	e.number(podWaitsField, protowire.EncodeBool(p.Waits))
	e.number(podVersionField, p.Version)
	w.encoder.message(podField, e.data)
}

// Finish returns the memory. It names all pods that were let go.
func (w *Writer) Finish() []byte {
	w.encoder.number(completeField, 1)
	return w.encoder.data
}

// encoder appends the fields of one message. texts numbers the texts that have been written.
type encoder struct {
	data  []byte
	texts map[string]uint64
}

// These append one field each. A number that is zero is left out, as protobuf does.

func (e *encoder) number(field protowire.Number, v uint64) {
	if v != 0 {
		e.data = protowire.AppendTag(e.data, field, protowire.VarintType)
		e.data = protowire.AppendVarint(e.data, v)
	}
}

func (e *encoder) text(field protowire.Number, v string) {
	e.data = protowire.AppendTag(e.data, field, protowire.BytesType)
	e.data = protowire.AppendString(e.data, v)
}

func (e *encoder) message(field protowire.Number, v []byte) {
	e.data = protowire.AppendTag(e.data, field, protowire.BytesType)
	e.data = protowire.AppendBytes(e.data, v)
}

// refer returns the number of a text, 0 for the empty text, and writes the text first if it is new.
func (e *encoder) refer(text string) uint64 {
	if text == "" {
		return 0
	}
	n, ok := e.texts[text]
	if !ok {
		n = uint64(len(e.texts)) + 1
		e.texts[text] = n
		e.text(textField, text)
	}
	return n
}
