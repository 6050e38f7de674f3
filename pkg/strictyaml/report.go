package strictyaml

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxValue is how many bytes of an offending value a message shows: enough to recognise it, little enough to keep the
// message one readable line.
const maxValue = 80

// Report collects the mistakes of one file, in the order in which they are found. Its zero value is empty and has no
// file name. It is for one goroutine.
//
// A value of a wrong type (field.ErrorTypeTypeInvalid) could not be read. What is recorded about such a place later is
// dropped: it would be about a value that the file does not have.
type Report struct {
	// File is the beginning of each message; usually the path from which the file was read.
	File     string
	mistakes []Mistake
}

// Mistake is one thing that cannot be accepted.
type Mistake struct {
	// Kind is for programs, in the API server's terms. A field that does not exist is
	// forbidden, text that is not YAML invalid.
	Kind field.ErrorType
	// Field is the path of the value or, for text that cannot be read, the place in it; empty for the whole file.
	// Value is shown as in messages, Accepted describes the values that are accepted.
	Field, Value, Accepted string
}

// Mistakes is the error of a Report: everything it recorded, in that order. Callers that need the single mistakes use
// errors.As.
type Mistakes struct {
	File string
	List []Mistake
}

// Error has one line for each mistake: "<file>: <field>: <value>: <what is accepted>".
func (m *Mistakes) Error() string {
	lines := make([]string, len(m.List))
	for i, one := range m.List {
		parts := make([]string, 0, 4)
		for _, p := range []string{m.File, one.Field, one.Value, one.Accepted} {
			if p != "" {
				parts = append(parts, oneLine(p))
			}
		}
		lines[i] = strings.Join(parts, ": ")
	}
	return strings.Join(lines, "\n")
}

// Add records that the value at path is not acceptable. accepted describes the values that are, without a full stop. A
// nil path is the whole file, a nil value a missing one.
func (r *Report) Add(path *field.Path, value any, accepted string) {
	r.AddKind(field.ErrorTypeInvalid, path, value, accepted)
}

// AddKind is Add for a mistake that is not just an invalid value: kind is for programs.
func (r *Report) AddKind(kind field.ErrorType, path *field.Path, value any, accepted string) {
	place := ""
	if path != nil { // a nil Path prints as "<nil>"
		place = path.String()
	}
	r.Record(Mistake{kind, place, render(value), accepted})
}

// addLine records a mistake that has a place in the text rather than a field.
func (r *Report) addLine(place, problem, accepted string) {
	r.Record(Mistake{field.ErrorTypeInvalid, place, problem, accepted})
}

// AddError records the errors of a library's validation: every field.Error inside err with its field and value,
// anything else under path. A nil error records nothing.
func (r *Report) AddError(path *field.Path, value any, err error) {
	if err == nil {
		return
	}
	// Libraries return one aggregate for all fields; each error in it is a mistake of its own.
	if agg, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		for _, e := range utilerrors.Flatten(agg).Errors() {
			r.AddError(path, value, e)
		}
		return
	}
	if e, ok := errors.AsType[*field.Error](err); ok {
		detail := e.Detail
		if detail == "" {
			detail = strings.ToLower(e.Type.String())
		}
		r.Record(Mistake{e.Type, e.Field, render(e.BadValue), detail})
		return
	}
	r.Add(path, value, err.Error())
}

// Record records a mistake that another report found, unless it follows from one that is recorded already.
func (r *Report) Record(m Mistake) {
	if !slices.ContainsFunc(r.mistakes, m.impliedBy) {
		r.mistakes = append(r.mistakes, m)
	}
}

// impliedBy reports whether m exists only because the value at the place of another mistake could not be read: m is
// about that value, or reports that something is missing around it.
func (m Mistake) impliedBy(other Mistake) bool {
	if other.Kind != field.ErrorTypeTypeInvalid {
		return false
	}
	missing := m.Kind == field.ErrorTypeRequired || m.Value == absent || m.Value == render("")
	return within(m.Field, other.Field) || missing && within(other.Field, m.Field)
}

// within reports whether a place is another, or a part of it, by their paths.
func within(place, whole string) bool {
	rest, ok := strings.CutPrefix(place, whole)
	return ok && (rest == "" || whole == "" || rest[0] == '.' || rest[0] == '[')
}

// List returns what has been recorded, in that order.
func (r *Report) List() []Mistake { return slices.Clone(r.mistakes) }

// Empty reports whether no mistake has been recorded.
func (r *Report) Empty() bool { return len(r.mistakes) == 0 }

// Err returns nil when the report is empty, else a *Mistakes.
func (r *Report) Err() error {
	if r.Empty() {
		return nil
	}
	return &Mistakes{File: r.File, List: slices.Clone(r.mistakes)}
}

// absent is the text for the value of a field that is missing.
const absent = "nothing"

// render shows a value as the user wrote it: strings quoted, so that blanks and line breaks are visible, lists and
// maps only by their kind, everything else in Go's plain form, cut at maxValue bytes.
func render(value any) string {
	var s string
	switch v := value.(type) {
	case nil:
		return absent
	case Words:
		return string(v)
	case string:
		s = fmt.Sprintf("%q", v)
	case metav1.Duration: // only its pointer is a Stringer
		s = v.Duration.String()
	case fmt.Stringer:
		s = v.String()
	case []any, map[string]any:
		return kindOf(v)
	default:
		s = fmt.Sprintf("%v", v)
	}
	if len(s) > maxValue {
		s = strings.ToValidUTF8(s[:maxValue], "") + "…"
	}
	return s
}

// Words is a value that is already worded for people: it is shown without quotes, such as "unknown field".
type Words string

// oneLine replaces line breaks and repeated blanks.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
