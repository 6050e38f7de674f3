package registry

// DecodeTermValue decodes a term under any key.
var DecodeTermValue = decodeTerm
