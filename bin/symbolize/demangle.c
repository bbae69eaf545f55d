/*
 * Makes readable names of symbols, shortened as jeprof does it. Names in the C++ scheme (_Z...),
 * which older Rust compilers use too, are demangled by the C++ library, if it is installed; then
 * parameters, template arguments and return type are removed. Rust's newer scheme (_R...) is read
 * by rust.c. From each name, also of C, the compiler's suffixes are removed. Invariant: a mangled
 * name that cannot be demangled loses no more than these; any other name, as DWARF may have it, is
 * shortened like a demangled one. No locks: one thread. Called by tables.c.
 */
#include "symbolize.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANGLED_MAX = 4096 }; /* bytes with NUL of a C++ name, above which it is not demangled */

enum { DEEPEST = 16 }; /* types of Rust in one another: each is a pass through a name */

/*
 * Bytes that stand in a name for "(anonymous namespace)" and for the brackets of operators, as in
 * operator<, and of Go's receivers, while pairs of brackets are removed.
 */
enum { ANONYMOUS = 1, OPEN_ROUND, CLOSE_ROUND, LESS, GREATER };

typedef char *demangle_t(const char *name, char *buffer, size_t *size, int *status);

/* __cxa_demangle() of a C++ library, which is loaded at the first call; NULL: none is installed. */
static demangle_t *
demangler_load(void) {
	static const char *const names[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};
	static demangle_t *found;
	static bool is_known;

	for (size_t i = 0; !is_known && i < sizeof(names) / sizeof(names[0]) && found == NULL; i++) {
		void *library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);

		if (library != NULL)
			*(void **)&found = dlsym(library, "__cxa_demangle");
	}
	is_known = true;
	return found;
}

static bool
is_word(char c) {
	return isalnum((unsigned char)c) || c == '_';
}

/* ---- pieces of a name; each changes it in place ---- */
/* Removes len bytes. */
static void
cut(char *from, size_t len) {
	memmove(from, from + len, strlen(from + len) + 1);
}

/* Removes each `text`; if stop is not NULL, all from `text` to the next `stop`, with that. */
static void
remove_all(char *name, const char *text, const char *stop) {
	char *at = name, *end;

	while ((at = strstr(at, text)) != NULL) {
		end = stop != NULL ? strstr(at, stop) : at + strlen(text);
		if (end == NULL)
			return;
		cut(at, (size_t)(end - at) + (stop != NULL ? strlen(stop) : 0));
	}
}

/*
 * Removes the compiler's suffixes of parts and clones of a function, with or without a number:
 * .isra.0, .cold.
 */
static void
cut_suffixes(char *name) {
	static const char *const marks[] = {".isra", ".constprop", ".part", ".cold", ".lto_priv",
	    ".localalias", ".llvm"};
	size_t len = strlen(name);
	bool has_cut = true;

	while (has_cut) {
		size_t digits = len;

		has_cut = false;
		while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
			digits--;
		digits = digits < len && digits > 0 && name[digits - 1] == '.' ? digits - 1 : len;
		for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]) && !has_cut; i++) {
			size_t mark = strlen(marks[i]);

			has_cut = digits >= mark && memcmp(name + digits - mark, marks[i], mark) == 0;
			len = has_cut ? digits - mark : len;
		}
		name[len] = '\0';
	}
}

/* Removes the hash at the end of Rust's older names: ::h and 16 hex digits. */
static void
cut_hash(char *name) {
	size_t len = strlen(name);

	if (len > 19 && memcmp(name + len - 19, "::h", 3) == 0 && strspn(name + len - 16,
	    "0123456789abcdef") == 16)
		name[len - 19] = '\0';
}

/* Removes the hashes of crates in Rust's newer names: core[0123456789abcdef]::ptr. */
static void
cut_crate_hashes(char *name) {
	for (char *at = name; (at = strchr(at, '[')) != NULL;) {
		size_t digits = strspn(at + 1, "0123456789abcdef");

		if (at > name && is_word(at[-1]) && digits >= 1 && digits <= 16 && at[1 + digits] == ']')
			cut(at, digits + 2);
		else
			at++;
	}
}

/*
 * <Type as Trait>::method and <Type>::method of Rust become Type::method; of dyn A + B, A stays.
 * The type may be one of this form too. False: nothing is changed.
 */
static bool
cut_trait(char *name) {
	char *end = NULL, *at = name;
	size_t depth = 0;

	if (*name != '<')
		return false;
	do {
		bool is_arrow = at[0] == '>' && at > name && at[-1] == '-';

		if (end == NULL && depth == 1 && (strncmp(at, " as ", 4) == 0 || *at == '+'
		    || strncmp(at, " +", 2) == 0))
			end = at;
		depth += *at == '<';
		depth -= *at == '>' && !is_arrow;
	} while (depth > 0 && *++at != '\0');
	if (strncmp(at, ">::", 3) != 0)
		return false;
	end = end != NULL ? end : at;
	cut(end, (size_t)(at + 1 - end));
	cut(name, 1);
	return true;
}

/* Replaces the brackets in names of operators, the longest operator first, and in arrows. */
static void
hide_operators(char *name) {
	static const char *const signs[] = {"()", "<=>", "<<=", "<<", ">>=", ">>", "->*", "->", "<=",
	    "<", ">=", ">"};
	static const char from[] = "()<>", to[] = {OPEN_ROUND, CLOSE_ROUND, LESS, GREATER};

	for (char *at = name; (at = strstr(at, "operator")) != NULL;) {
		bool is_start = at == name || !is_word(at[-1]);

		at += strlen("operator");
		for (size_t i = 0; is_start && i < sizeof(signs) / sizeof(signs[0]); i++) {
			size_t len = strlen(signs[i]);

			if (strncmp(at, signs[i], len) != 0)
				continue;
			for (size_t k = 0; k < len; k++) {
				const char *place = strchr(from, at[k]);

				at[k] = place != NULL ? to[place - from] : at[k];
			}
			if (strncmp(at + len, " <", 2) == 0) /* operator<< <int> */
				cut(at + len, 1);
			break;
		}
	}
	for (char *at = name; (at = strstr(at, "->")) != NULL;)
		at[1] = GREATER;
}

/* Replaces the brackets of receivers in names of Go, package.(*Type).Method. */
static void
hide_receivers(char *name) {
	for (char *at = name; (at = strstr(at, ".(*")) != NULL; at++) {
		char *end = at + 2 + strcspn(at + 2, "()");

		if (strncmp(end, ").", 2) == 0) {
			at[1] = OPEN_ROUND;
			*end = CLOSE_ROUND;
		}
	}
}

/* Removes all pairs of these brackets with their contents; a bracket without partner stays. */
static void
cut_pairs(char *name, char open, char close) {
	size_t to = 0, depth = 0, *starts = malloc((strlen(name) + 1) * sizeof(*starts));

	if (starts == NULL)
		return;
	for (size_t i = 0; name[i] != '\0'; i++) {
		if (name[i] == close && depth > 0) {
			to = starts[--depth];
			continue;
		}
		if (name[i] == open)
			starts[depth++] = to;
		name[to++] = name[i];
	}
	name[to] = '\0';
	free(starts);
}

/* Rust's name::<Type> becomes name<Type>. */
static void
cut_turbofish(char *name) {
	for (char *at = name; (at = strstr(at, "::<")) != NULL;)
		cut(at, 2);
}

/* Rust's array [Type; 4] becomes [Type]. */
static void
cut_lengths(char *name) {
	for (char *at = name; (at = strchr(at, ';')) != NULL;) {
		size_t len = 1 + strcspn(at + 1, "[];");

		if (at[len] == ']')
			cut(at, len);
		else
			at++;
	}
}

/* {lambda(int)#1} becomes {lambda#1}, and {unnamed type#1} becomes {unnamed#1}. */
static void
cut_unnamed(char *name) {
	static const char lambda[] = "{lambda(", type[] = "{unnamed type#";
	char *end;

	for (char *at = name; (at = strstr(at, lambda)) != NULL; at++) {
		char *number = strstr(at, ")#");

		for (end = strpbrk(at + 1, "{}"); number != NULL && end != NULL && strstr(number + 1,
		    ")#") != NULL && strstr(number + 1, ")#") < end;)
			number = strstr(number + 1, ")#");
		if (number != NULL && end != NULL && number < end)
			cut(at + strlen("{lambda"), (size_t)(number + 1 - at) - strlen("{lambda"));
	}
	for (char *at = name; (at = strstr(at, type)) != NULL; at++) {
		end = at + strlen(type);
		if (isdigit((unsigned char)*end) && end[strspn(end, "0123456789")] == '}')
			cut(at + strlen("{unnamed"), strlen(" type"));
	}
}

/* Removes what may follow the parameters of a member function: const, volatile, noexcept, &, &&. */
static void
cut_qualifiers(char *name) {
	static const char *const words[] = {" const", " volatile", " noexcept", " &&", " &"};

	for (char *at = name; (at = strchr(at, ' ')) != NULL;) {
		size_t i = 0, len = 0;

		for (; i < sizeof(words) / sizeof(words[0]); i++) {
			len = strlen(words[i]);
			if (strncmp(at, words[i], len) == 0 && (words[i][1] == '&' || !is_word(at[len])))
				break;
		}
		if (i < sizeof(words) / sizeof(words[0]))
			cut(at, len);
		else
			at++;
	}
}

/* The first operator of a name that has a space in its own name, as operator new; NULL: none. */
static const char *
operator_find(const char *name) {
	static const char word[] = "operator";

	for (const char *at = name; (at = strstr(at, word)) != NULL; at++) {
		const char *end = at + strlen(word);

		end += strncmp(end, "\"\"", 2) == 0 ? 2 : 0;
		if ((at == name || !is_word(at[-1])) && *end == ' ')
			return at;
	}
	return NULL;
}

/*
 * Of a function that returns the address of a function or array, as in int (*f(char))(long), keeps
 * what stands from its name on. False: nothing is changed.
 */
static bool
cut_front_of_address(char *name) {
	char *at = strchr(name, '('), *end = at;

	if (at == NULL || at == name || at[-1] != ' ')
		return false;
	while (*end == '(') {
		end += 1 + strcspn(end + 1, "()*& ");
		if (*end != '*' && *end != '&')
			return false;
		end += strspn(end, "*&");
	}
	if (*end == '\0' || *end == ')' || *end == ' ')
		return false;
	cut(name, (size_t)(end - name));
	return true;
}

/* Removes what then stands behind the parameters: brackets without partner, sizes of arrays. */
static void
cut_rear_of_address(char *name) {
	remove_all(name, ")", NULL);
	remove_all(name, " [", "]");
}

/*
 * Skips the return type: returns where the last word begins, or the word with "operator", behind
 * which spaces may follow (operator new).
 */
static const char *
skip_return_type(const char *name) {
	const char *start = name, *operator = operator_find(name);
	size_t len = strlen(name);

	if (operator != NULL) {
		for (const char *at = name; at < operator; at++)
			start = *at == ' ' ? at + 1 : start;
		return start;
	}
	for (size_t i = 0; i + 1 < len; i++)
		start = name[i] == ' ' && name[i + 1] != ' ' ? name + i + 1 : start;
	return start;
}

/*
 * Copies the name, with hidden parts as they were and without spaces at the end. Cuts it where
 * fewer than 23 bytes of `room` are left, so that an anonymous namespace and the NUL always fit.
 */
static void
show_hidden(char *to, size_t room, const char *name) {
	static const char anonymous[] = "(anonymous namespace)";
	size_t at = 0;

	for (; *name != '\0' && at + sizeof(anonymous) < room; name++) {
		if (*name == ANONYMOUS) {
			memcpy(to + at, anonymous, sizeof(anonymous) - 1);
			at += sizeof(anonymous) - 1;
		} else {
			to[at++] = *name >= OPEN_ROUND && *name <= GREATER ? "()<>"[*name - OPEN_ROUND] : *name;
		}
	}
	while (at > 0 && to[at - 1] == ' ')
		at--;
	to[at] = '\0';
}

size_t
put_utf8(unsigned long point, char *to) {
	static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;

	if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		return 0;
	for (size_t i = n; i-- > 1; point >>= 6)
		to[i] = (char)(0x80 | (point & 0x3f));
	to[0] = (char)(first[n] | point);
	return n;
}

/*
 * Writes the character for which an escape of Rust's older names stands, and sets *len to the bytes
 * of the escape, which are more. Returns the number of bytes written; 0: the text does not begin
 * with one, or with one of a control character or of no character.
 */
static size_t
unescape_one(const char *text, size_t *len, char *to) {
	static const char *const codes[] = {"@$SP$", "*$BP$", "&$RF$", "<$LT$", ">$GT$", "($LP$",
	    ")$RP$", ",$C$"};
	char *end;
	unsigned long value;

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		*len = strlen(codes[i] + 1);
		if (strncmp(text, codes[i] + 1, *len) == 0) {
			*to = codes[i][0];
			return 1;
		}
	}
	if (strncmp(text, "$u", 2) != 0 || !isxdigit((unsigned char)text[2]))
		return 0;
	value = strtoul(text + 2, &end, 16);
	*len = (size_t)(end + 1 - text);
	if (*end != '$' || value < ' ' || (value >= 0x7f && value < 0xa0))
		return 0;
	return put_utf8(value, to);
}

/*
 * Removes a suffix from a mangled name of Rust's older scheme, which ends in a hash as a part of
 * its path. False: it is none, and nothing is changed.
 */
static bool
older_rust_try_cut(char *mangled) {
	char *end = strstr(mangled, "E.");
	size_t len = end != NULL ? (size_t)(end + 1 - mangled) : strlen(mangled);

	if (len <= 20 || memcmp(mangled + len - 20, "17h", 3) != 0 || strspn(mangled + len - 17,
	    "0123456789abcdef") != 16 || mangled[len - 1] != 'E')
		return false;
	mangled[len] = '\0';
	return true;
}

/*
 * Replaces the escapes in a name of Rust's older scheme: $LT$ becomes <, $ue9$ the letter of that
 * number, and .. becomes ::.
 */
static void
unescape_rust(char *name) {
	char *to = name, last = ':';
	size_t len;

	for (const char *from = name; *from != '\0'; from += len) {
		size_t n = unescape_one(from, &len, to);

		if (n > 0) {
			to += n;
		} else if (strncmp(from, "..", 2) == 0) {
			*to++ = ':';
			*to++ = ':';
			len = 2;
		} else {
			len = 1;
			if (last != ':' || strncmp(from, "_$", 2) != 0) /* the _ is there for linkers */
				*to++ = *from;
		}
		last = to > name ? to[-1] : last;
	}
	*to = '\0';
}

/* Replaces each "(anonymous namespace)", whose brackets are no parameters, by ANONYMOUS. */
static void
hide_anonymous(char *name) {
	for (char *at = name; (at = strstr(at, "(anonymous namespace)")) != NULL; at++) {
		*at = ANONYMOUS;
		cut(at + 1, strlen("(anonymous namespace)") - 1);
	}
}

/* Inserts "basic_" at `at` in the name, if that fits into room bytes. */
static void
insert_basic(char *name, char *at, size_t room) {
	static const char front[] = "basic_";
	size_t len = strlen(name), more = sizeof(front) - 1;

	if (len + more >= room)
		return;
	memmove(at + more, at, strlen(at) + 1);
	memcpy(at, front, more);
}

/*
 * For members of std::string and of the streams, writes std::basic_string and so on, as c++filt
 * does and the C++ library does not.
 */
static void
expand_std_aliases(char *name, size_t room) {
	static const char *const words[] = {"string", "istream", "ostream", "iostream"};
	static const char front[] = "std::";
	char *at = name + sizeof(front) - 1, *member;

	if (strncmp(name, front, sizeof(front) - 1) != 0)
		return;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t len = strlen(words[i]);

		if (strncmp(at, words[i], len) != 0 || strncmp(at + len, "::", 2) != 0)
			continue;
		member = at + len + 2;
		member += *member == '~';
		if (strcmp(member, words[i]) == 0)
			insert_basic(name, member, room);
		insert_basic(name, at, room);
		return;
	}
}

/*
 * Writes the short form of a name. Without memory it is the name itself; also, but without
 * suffixes and hashes, if nothing would remain, or a text that begins with "::".
 */
static void
name_shorten(const char *name, char *to, size_t room) {
	char *text = strdup(name);
	bool is_round;

	to[0] = '\0';
	if (text == NULL) {
		snprintf(to, room, "%s", name);
		return;
	}
	cut_suffixes(text);
	cut_hash(text);
	cut_crate_hashes(text);
	for (unsigned depth = 0; depth < DEEPEST && cut_trait(text);)
		depth++;
	if (strpbrk(text, "(<[ ") != NULL) {
		remove_all(text, " [clone ", "]");
		remove_all(text, "[abi:", "]");
		remove_all(text, "::{default arg#", "}");
		hide_anonymous(text);
		hide_operators(text);
		hide_receivers(text);
		cut_turbofish(text);
		cut_pairs(text, '<', '>');
		cut_lengths(text);
		cut_unnamed(text);
		is_round = cut_front_of_address(text);
		cut_pairs(text, '(', ')');
		if (is_round)
			cut_rear_of_address(text);
		cut_qualifiers(text);
		show_hidden(to, room, skip_return_type(text));
	} else {
		show_hidden(to, room, text);
	}
	if (to[0] == '\0' || strncmp(to, "::", 2) == 0 || strcmp(to, "decltype") == 0) {
		snprintf(to, room, "%s", name);
		cut_suffixes(to);
		cut_hash(to);
		cut_crate_hashes(to);
	}
	free(text);
}

void
name_for_people(const char *mangled, char *to, size_t room) {
	size_t bars = strspn(mangled, "_");
	bool is_mangled = bars > 0 && mangled[bars] == 'Z' && strlen(mangled) < MANGLED_MAX, is_rust;
	demangle_t *demangle = is_mangled ? demangler_load() : NULL;
	int status = 0;
	char whole[MANGLED_MAX], *plain;

	if (rust_try_demangle(mangled, whole, sizeof(whole))) {
		name_shorten(whole, to, room);
		return;
	}
	snprintf(whole, sizeof(whole), "%s", is_mangled ? mangled : "");
	cut_suffixes(whole); /* with one the library refuses a name that has no parameters */
	is_rust = older_rust_try_cut(whole);
	plain = demangle != NULL ? demangle(whole, NULL, NULL, &status) : NULL;
	if (plain != NULL && is_rust)
		unescape_rust(plain);
	name_shorten(plain != NULL ? plain : mangled, to, room);
	if (plain != NULL)
		expand_std_aliases(to, room);
	free(plain);
}
