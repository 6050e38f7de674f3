package strictyaml

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type inner struct {
	Name  string          `json:"name"`
	Every metav1.Duration `json:"every"`
}

type document struct {
	metav1.TypeMeta `json:",inline"`
	inner           `json:",inline"`
	List            []inner              `json:"list,omitempty"`
	Map             map[string]*inner    `json:"map,omitempty"`
	Count           *int32               `json:"count,omitempty"`
	Size            uint8                `json:"size"`
	Share           float64              `json:"share"`
	Ready           bool                 `json:"ready"`
	Bytes           []byte               `json:"bytes"`
	Raw             runtime.RawExtension `json:"raw"`
	Hidden          string               `json:"-"`
}

func decode(text string) (document, error) {
	r := &Report{File: "f.yaml"}
	var d document
	if raw := JSON([]byte(text), r); raw != nil {
		Decode(raw, &d, nil, r)
	}
	return d, r.Err()
}

func TestMistakes(t *testing.T) {
	const names = "apiVersion, bytes, count, every, kind, list, map, name, raw, ready, share, size"
	for _, tt := range []struct{ name, in, want string }{
		{"fine", "kind: K\nname: x\nevery: 5s\nlist: [{name: a}]\nmap: {k: {name: b}}\ncount: null\nraw: {any: [1]}", ""},
		{"nothing", "\n# a comment\n", "f.yaml: empty: want one well-formed YAML document without duplicate fields"},
		{"two documents", "ready: true\n---\nready: true",
			"f.yaml: second document: want one well-formed YAML document without duplicate fields"},
		{"empty documents around", "---\n---\nready: true\n---\n# the end\n", ""},
		{"a list", "[1]", "f.yaml: a list: want a map with fields of " + names},
		{"a word", "hello", `f.yaml: "hello": want a map with fields of ` + names},
		{"line numbers count from the top", "# one\n---\nready: true\nready: false",
			`f.yaml: line 4: key "ready" already set in map: want one well-formed YAML document without duplicate fields`},
		{"case matters", "Ready: true", "f.yaml: Ready: unknown field: want one of " + names},
		{"hidden is hidden", "Hidden: x", "f.yaml: Hidden: unknown field: want one of " + names},
		{"deep", "list: [{name: a}, {nam: b}]\nmap: {k: {every: soon}}",
			"f.yaml: list[1].nam: unknown field: want one of every, name\n" +
				`f.yaml: map[k].every: "soon": time: invalid duration "soon"`},
		{"types", "count: 1.5\nname: 3\nready: 1\nshare: half\nsize: 256",
			"f.yaml: count: 1.5: want a 32-bit integer\nf.yaml: name: 3: want a string\n" +
				"f.yaml: ready: 1: want true or false\n" + `f.yaml: share: "half": want a number` +
				"\nf.yaml: size: 256: want a non-negative 8-bit integer"},
		{"shapes", "list: {}\nmap: []\nname: {}\nbytes: 7",
			"f.yaml: bytes: 7: want []uint8\nf.yaml: list: a map: want a list\nf.yaml: map: a list: want a map\n" +
				"f.yaml: name: a map: want a string"},
		{"a long value is cut", "ready: " + strings.Repeat("x", 200),
			`f.yaml: ready: "` + strings.Repeat("x", 79) + "…: want true or false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decode(tt.in)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatCanBeReadIsRead: a value that cannot be read leaves the others as they are, whatever stands before or behind
// it, and so does a field that is given twice.
func TestWhatCanBeReadIsRead(t *testing.T) {
	d, err := decode("every: soon\nname: a\nname: b\nunknown: 1\nlist: [{name: c, every: 5s}, 7, {every: x, name: d}]\n" +
		"map: {k: {every: y, name: e}, l: []}\ncount: 1.5\nsize: 3\n---\nsize: 4\n")
	want := document{
		inner: inner{Name: "b"}, Size: 3,
		List: []inner{{Name: "c", Every: metav1.Duration{Duration: 5e9}}, {}, {Name: "d"}},
		Map:  map[string]*inner{"k": {Name: "e"}},
	}
	if diff := cmp.Diff(want, d, cmp.AllowUnexported(document{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	mistakes, ok := errors.AsType[*Mistakes](err)
	if !ok {
		t.Fatalf("%T is no *Mistakes", err)
	}
	var places []string
	for _, m := range mistakes.List {
		places = append(places, m.Field)
	}
	wantPlaces := []string{
		"line 3", "", "count", "every", "list[1]", "list[2].every", "map[k].every", "map[l]", "unknown",
	}
	if diff := cmp.Diff(wantPlaces, places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

// TestMistakesThatFollow: what is said of a value that could not be read is left out, and that something is missing
// where it should be; the rest is not.
func TestMistakesThatFollow(t *testing.T) {
	at := field.NewPath("list").Index(1)
	r := &Report{}
	r.AddKind(field.ErrorTypeTypeInvalid, at.Child("name"), 5, "want a string")
	for place, follows := range map[*field.Path]bool{
		at.Child("name"): true, at.Child("name", "first"): true, at.Child("name").Index(0): true,
		at.Child("names"): false, at.Child("every"): false, at: false, field.NewPath("list"): false,
	} {
		before := len(r.List())
		r.Add(place, 7, "want 8")
		if got := len(r.List()) == before; got != follows {
			t.Errorf("a value at %s left out: %t, want %t", place, got, follows)
		}
	}
	for value, kind := range map[any]field.ErrorType{
		nil: field.ErrorTypeInvalid, "": field.ErrorTypeNotSupported, 0: field.ErrorTypeRequired,
	} {
		before := len(r.List())
		r.AddKind(kind, at, value, "want a name")
		r.AddKind(kind, field.NewPath("list").Index(0), value, "want a name")
		if got := len(r.List()) - before; got != 1 {
			t.Errorf("%v at the list's entry, and at another: %d recorded, want the other", value, got)
		}
	}
}

// TestKinds: programs are told apart what people read.
func TestKinds(t *testing.T) {
	_, err := decode("count: 1.5\nnope: 1\nlist: {}")
	r := &Report{File: "f.yaml"}
	r.Add(nil, 1, "want 2")
	r.AddKind(field.ErrorTypeDuplicate, field.NewPath("a"), "x", "want each once")
	r.AddError(nil, nil, field.Required(field.NewPath("b"), "want one"))
	r.addLine("line 3", "what", "want YAML")
	for _, tt := range []struct {
		err  error
		want []Mistake
	}{
		{err, []Mistake{
			{field.ErrorTypeTypeInvalid, "count", "1.5", "want a 32-bit integer"},
			{field.ErrorTypeTypeInvalid, "list", "a map", "want a list"},
			{field.ErrorTypeForbidden, "nope", "unknown field", ""},
		}},
		{r.Err(), []Mistake{
			{field.ErrorTypeInvalid, "", "1", "want 2"},
			{field.ErrorTypeDuplicate, "a", `"x"`, "want each once"},
			{field.ErrorTypeRequired, "b", `""`, "want one"},
			{field.ErrorTypeInvalid, "line 3", "what", "want YAML"},
		}},
	} {
		mistakes, ok := errors.AsType[*Mistakes](tt.err)
		if !ok {
			t.Fatalf("%T is no *Mistakes", tt.err)
		}
		for i := range mistakes.List {
			if mistakes.List[i].Value == "unknown field" {
				mistakes.List[i].Accepted = "" // a list of names
			}
		}
		if diff := cmp.Diff(tt.want, mistakes.List); diff != "" || mistakes.File != "f.yaml" {
			t.Errorf("file %s (-want +got):\n%s", mistakes.File, diff)
		}
	}
}

// FuzzDecode: no panic, and every refusal has words, one line each.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"ready: true", "list: [{nam: b}]", "---\n[", "{a: &a [*a]}", "? {}\n: 1", "bytes: x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := decode(text); err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "f.yaml: ") {
					t.Fatalf("line does not name the file: %q", line)
				}
			}
		}
	})
}
