package strictyaml

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// explain compares a decoded tree with the type it was meant for, and records every place where the two differ. It
// removes the values that cannot be read from the tree, and reports whether v itself can be read. A missing value
// (nil) is read as the zero value. Types that decode themselves (metav1.Duration, resource.Quantity) are leaves: only
// they know what they accept.
func explain(v any, t reflect.Type, path *field.Path, r *Report) (readable bool) {
	// A pointer is treated like its target, unless the pointer type decodes itself.
	for t.Kind() == reflect.Pointer && !decodesItself(t) {
		t = t.Elem()
	}
	switch {
	case v == nil:
		return true
	case decodesItself(t):
		return explainLeaf(v, t, path, r)
	case t.Kind() == reflect.Struct:
		return explainStruct(v, t, path, r)
	case t.Kind() == reflect.Map:
		return explainMap(v, t, path, r)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return explainList(v, t, path, r)
	default:
		return explainLeaf(v, t, path, r)
	}
}

// explainMap explains the values of a map; every key is accepted.
func explainMap(v any, t reflect.Type, path *field.Path, r *Report) (readable bool) {
	m, ok := v.(map[string]any)
	if !ok {
		r.AddKind(field.ErrorTypeTypeInvalid, path, v, "want a map")
		return false
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !explain(m[key], t.Elem(), path.Key(key), r) {
			delete(m, key)
		}
	}
	return true
}

// explainList explains the items of a list. An item that cannot be read becomes null, so that the indexes in messages
// about later items stay right.
func explainList(v any, t reflect.Type, path *field.Path, r *Report) (readable bool) {
	list, ok := v.([]any)
	if !ok {
		r.AddKind(field.ErrorTypeTypeInvalid, path, v, "want a list")
		return false
	}
	for i, item := range list {
		if !explain(item, t.Elem(), path.Index(i), r) {
			list[i] = nil // the places of the others do not move
		}
	}
	return true
}

// explainStruct explains the fields of a struct. An unknown field is recorded with the list of known ones; it stays in
// the tree, where the lenient decoder ignores it.
func explainStruct(v any, t reflect.Type, path *field.Path, r *Report) (readable bool) {
	fields := map[string]reflect.Type{}
	collectFields(t, fields)
	accepted := strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
	m, ok := v.(map[string]any)
	if !ok {
		r.AddKind(field.ErrorTypeTypeInvalid, path, v, "want a map with fields of "+accepted)
		return false
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		ft, known := fields[key]
		if !known {
			r.AddKind(field.ErrorTypeForbidden, path.Child(key), Words("unknown field"), "want one of "+accepted)
			continue
		}
		if !explain(m[key], ft, path.Child(key), r) {
			delete(m, key)
		}
	}
	return true
}

// explainLeaf decodes one value by itself to find out whether the decoder accepts it.
func explainLeaf(v any, t reflect.Type, path *field.Path, r *Report) (readable bool) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, reflect.New(t).Interface())
	}
	if err == nil {
		return true
	}
	want := "want " + expected(t)
	if decodesItself(t) {
		want = err.Error()
	}
	r.AddKind(field.ErrorTypeTypeInvalid, path, v, want)
	return false
}

// collectFields adds the JSON names of a struct's fields, those of embedded structs included, with their types, by the
// rules of encoding/json.
func collectFields(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && (name == "" || strings.Contains(options, "inline")):
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			collectFields(embedded, into)
		case !f.IsExported():
		case name == "":
			into[f.Name] = f.Type
		default:
			into[name] = f.Type
		}
	}
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// decodesItself reports whether a type, or a pointer to it, has an UnmarshalJSON method.
func decodesItself(t reflect.Type) bool {
	return t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler)
}

// expected describes the values of a type, for messages.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a %d-bit integer", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a non-negative %d-bit integer", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return t.String()
	}
}

// kindOf describes a value that is not shown in full.
func kindOf(v any) string {
	switch v.(type) {
	case []any:
		return "a list"
	default:
		return "a map"
	}
}
