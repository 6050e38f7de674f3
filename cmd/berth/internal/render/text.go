package render

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// Structured writes v as JSON or YAML, and reports whether format requested one of them. If it is false, nothing was
// written, and the caller writes text.
func Structured(w io.Writer, v any, format string) (done bool, err error) {
	var raw []byte
	switch format {
	case "json":
		raw, err = json.MarshalIndent(v, "", "  ")
		raw = append(raw, '\n')
	case "yaml":
		raw, err = yaml.Marshal(v)
	default:
		return false, nil
	}
	if err == nil {
		_, err = w.Write(raw)
	}
	return true, err
}

// Lines is a writer that keeps the first error and then writes nothing more, so that a page is written without a check
// at each line; the caller returns Err at the end. It is also the writer of the page's tables.
type Lines struct {
	w   io.Writer
	err error
}

// NewLines returns a writer to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Err returns the first error of a write, nil if there was none.
func (e *Lines) Err() error { return e.err }

// Write writes p, unless a write has failed before.
func (e *Lines) Write(p []byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	n, err := e.w.Write(p)
	e.err = err
	return n, err
}

// Printf writes formatted text, unless a write has failed before.
func (e *Lines) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(e, format, args...) // Write keeps the error
}
