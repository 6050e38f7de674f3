package strictyaml

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const wellFormed = "want one well-formed YAML document, each field once"

// JSON turns the one document in data (YAML or JSON) into JSON. It returns nil after
// recording why in r when data is not exactly one well-formed document.
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
		converted, err := yaml.YAMLToJSONStrict(append(bytes.Repeat([]byte("\n"), before), doc...))
		if err != nil {
			addYAMLError(err, r)
			return nil
		}
		if string(converted) == "null" { // blanks and comments alone
			continue
		}
		if found != nil {
			r.AddLine("", "a second document", wellFormed)
			return nil
		}
		found = converted
	}
	if found == nil {
		r.AddLine("", "no content", wellFormed)
	}
	return found
}

// Decode reads one JSON value (from JSON, or a part of it) into the struct that into
// points to and records every mistake in r with its full path below path (nil for the
// whole document). It reports whether into may be used.
func Decode(raw []byte, into any, path *field.Path, r *Report) bool {
	strict, err := kjson.UnmarshalStrict(raw, into, kjson.DisallowUnknownFields, kjson.DisallowDuplicateFields)
	if err == nil && len(strict) == 0 {
		return true
	}
	var tree any
	if treeErr := kjson.UnmarshalCaseSensitivePreserveInts(raw, &tree); treeErr != nil {
		r.AddError(path, Words("not JSON"), treeErr)
		return false
	}
	before := len(r.mistakes)
	explain(tree, reflect.TypeOf(into), path, r)
	if len(r.mistakes) > before {
		return false
	}
	for _, e := range strict {
		r.AddError(path, Words("strict decoding"), e)
	}
	r.AddError(path, Words("decoding"), err)
	return false
}

var yamlLine = regexp.MustCompile(`line (\d+): (.*)`)

// addYAMLError splits the library's "yaml: line 3: what" (one or several of them) into
// place and problem.
func addYAMLError(err error, r *Report) {
	matches := yamlLine.FindAllStringSubmatch(err.Error(), -1)
	if matches == nil {
		r.AddLine("", err.Error(), wellFormed)
		return
	}
	for _, m := range matches {
		r.AddLine("line "+m[1], m[2], wellFormed)
	}
}
