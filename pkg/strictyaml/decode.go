package strictyaml

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// wellFormed is the accepted text of all mistakes in the form of a document.
const wellFormed = "want one well-formed YAML document without duplicate fields"

// JSON turns the one document in data (YAML or JSON) into JSON. It returns nil, after recording why in r, if data is
// not exactly one well-formed document; for a second document it records that and returns the first. Documents of
// blanks and comments alone do not count.
func JSON(data []byte, r *Report) []byte {
	var found []byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			addYAMLError(err, r)
			return nil
		}
		// Blank lines in place of what stood before keep the line numbers of errors true.
		start := bytes.Index(data, bytes.TrimRight(doc, "\n"))
		before := bytes.Count(data[:max(start, 0)], []byte("\n"))
		converted := toJSON(append(bytes.Repeat([]byte("\n"), before), doc...), r)
		switch {
		case converted == nil:
			return nil
		case string(converted) == "null": // blanks and comments alone
			continue
		case found != nil:
			r.addLine("", "second document", wellFormed)
			return found
		}
		found = converted
	}
	if found == nil {
		r.addLine("", "empty", wellFormed)
	}
	return found
}

// toJSON returns nil, after recording why in r, if doc is not well-formed. A field that is given twice is recorded
// too; the last one counts then, so that the rest of the document can be checked.
func toJSON(doc []byte, r *Report) []byte {
	converted, err := yaml.YAMLToJSONStrict(doc)
	if err == nil {
		return converted
	}
	addYAMLError(err, r)
	if converted, err = yaml.YAMLToJSON(doc); err != nil {
		return nil
	}
	return converted
}

// Decode reads one JSON value (from JSON, or a part of it) into the struct that into points to and records every
// mistake in r with its full path below path (nil for the whole document). Whatever could be read is in into either
// way: it may be checked, so that all mistakes are found at once, but must not be used if r is not empty.
func Decode(raw []byte, into any, path *field.Path, r *Report) {
	strict, err := kjson.UnmarshalStrict(raw, into, kjson.DisallowUnknownFields, kjson.DisallowDuplicateFields)
	if err == nil && len(strict) == 0 {
		return
	}
	var tree any
	if treeErr := kjson.UnmarshalCaseSensitivePreserveInts(raw, &tree); treeErr != nil {
		r.AddKind(field.ErrorTypeTypeInvalid, path, Words("not JSON"), treeErr.Error())
		return
	}
	// explain names each place with what is accepted there. The library's strict errors are used only where it finds
	// no unknown field: for fields that are given twice.
	before := len(r.mistakes)
	readable := explain(tree, reflect.TypeOf(into), path, r)
	unknown := func(m Mistake) bool { return m.Kind == field.ErrorTypeForbidden }
	if len(strict) > 0 && !slices.ContainsFunc(r.mistakes[before:], unknown) {
		for _, e := range strict {
			r.AddError(path, Words("strict decoding"), e)
		}
	}
	if err == nil || !readable {
		return
	}
	// The library stops at some values that it cannot read; those are gone from the tree now.
	if err := decodeTree(tree, into); err != nil {
		r.AddKind(field.ErrorTypeTypeInvalid, path, Words("decoding"), err.Error())
	}
}

// decodeTree decodes a tree leniently, into a struct that is set to zero first.
func decodeTree(tree, into any) error {
	raw, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	reflect.ValueOf(into).Elem().SetZero() // of what has been read before
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
}

var yamlLine = regexp.MustCompile(`line (\d+): (.*)`)

// addYAMLError splits the library's "yaml: line 3: what" (one or several of them) into
// place and problem.
func addYAMLError(err error, r *Report) {
	matches := yamlLine.FindAllStringSubmatch(err.Error(), -1)
	if matches == nil {
		r.addLine("", err.Error(), wellFormed)
		return
	}
	for _, m := range matches {
		r.addLine("line "+m[1], m[2], wellFormed)
	}
}
