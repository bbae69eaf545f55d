# Forms the lists of public names out of src/public_symbols.txt.
# Variables: form (rename, unlogged, mangle, demangle: macros for the headers; list: what the linker may export), prefix, mangling
# ("a:b,c:d"), cxx, export, smallocx, defrag (0 or 1), gid.
BEGIN {
	n = split(mangling, pair, ",")
	for (i = 1; i <= n; i++) {
		split(pair[i], ab, ":")
		if (ab[2] != "")
			renamed[ab[1]] = ab[2]
	}
}
$1 == "cxx" && form == "list" && cxx && export { print $2 }
$1 == "func" || $1 == "data" {
	name = ($2 in renamed) ? renamed[$2] : prefix $2
	if (form == "list")
		print name
	else if (form == "rename" || (form == "unlogged" && $1 == "data"))
		print "#define je_" $2 " " name
	else if (form == "unlogged")
		print "#define je_" $2 " unlogged_" $2
	else if (form == "demangle")
		print "#undef je_" $2
	else if (form == "mangle")
		print "#define " $2 " je_" $2
}
END {
	if (smallocx && form == "list")
		print prefix "smallocx_" gid
	# Callers declare it themselves, by this name, whatever the prefix.
	if (defrag && form == "list")
		print "je_get_defrag_hint"
	if (smallocx && (form == "rename" || form == "unlogged"))
		print "#define je_smallocx " prefix "smallocx_" gid
}
