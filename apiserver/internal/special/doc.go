// Package special has what the server does differently for single built-in kinds, so that the path that all
// kinds share names none of them. [Of] returns the [Rules] of an object; those of most objects do nothing.
//
// Defaults and validation are in package apiserver/builtin. They are optional; what is here is not.
package special
