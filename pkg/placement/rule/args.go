package rule

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// Args converts args to the type that a plugin expects; nil gives its zero value.
func Args[T any](args runtime.Object) (*T, error) {
	if args == nil {
		return new(T), nil
	}
	typed, ok := any(args).(*T)
	if !ok {
		return nil, fmt.Errorf("args of type %T, want %T", args, new(T))
	}
	return typed, nil
}
