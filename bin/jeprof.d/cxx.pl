# Cxx: the short form of a C++ name (no parameters, no template arguments) that neither c++filt nor
# llvm-cxxfilt has demangled; and of Rust's older names, of the same scheme. Walks the mangled name
# (Itanium ABI) from left to right; what must be remembered on the way is the list of substitutions.
# Each sub reads one part of the name at pos($in), moves behind it and returns its text, if it has
# one. What is not known makes them die, and short() returns undef: then the mangled name is shown.
# Caller: Names.
package Cxx;

# Letters of the ABI: substitutions after S, builtin types, operators.
my %standard = (a => 'std::allocator', b => 'std::basic_string', s => 'std::basic_string',
	i => 'std::basic_istream',
	o => 'std::basic_ostream', d => 'std::basic_iostream', t => 'std');
my %builtin = (v => 'void', w => 'wchar_t', b => 'bool', c => 'char', a => 'signed char',
	h => 'unsigned char', s => 'short',
	t => 'unsigned short', i => 'int', j => 'unsigned int', l => 'long', m => 'unsigned long',
	x => 'long long',
	y => 'unsigned long long', n => '__int128', o => 'unsigned __int128', f => 'float',
	d => 'double', e => 'long double',
	g => '__float128', z => '...');
my %operator = (nw => ' new', na => ' new[]', dl => ' delete', da => ' delete[]', aw => ' co_await',
	ps => '+', ng => '-',
	ad => '&', de => '*', co => '~', pl => '+', mi => '-', ml => '*', dv => '/', rm => '%',
	an => '&', or => '|', eo => '^',
	aS => '=', pL => '+=', mI => '-=', mL => '*=', dV => '/=', rM => '%=', aN => '&=', oR => '|=',
	eO => '^=', ls => '<<',
	rs => '>>', lS => '<<=', rS => '>>=', eq => '==', ne => '!=', lt => '<', gt => '>', le => '<=',
	ge => '>=', ss => '<=>',
	nt => '!', aa => '&&', oo => '||', pp => '++', mm => '--', cm => ',', pm => '->*', pt => '->',
	cl => '()', ix => '[]', qu => '?');

# A forged name may hold itself many times over: nothing is read of a longer one, and no part that is
# longer is repeated.
use constant LONGEST => 4096;

our ($in, @known); # the name, read at pos($in); substitutions so far

# The short form of a mangled name; undef if it is not understood. What follows the name, such as
# parameters, is not read.
sub short {
	my ($mangled) = @_;
	local ($in, @known) = ($mangled);
	return undef unless length $in <= LONGEST && $in =~ /\G_Z/gc;
	my $text = eval { encoding(0) };
	return defined $text && $mangled =~ /17h[0-9a-f]{16}E(?:\.[\w.]+)?$/ ? of_rust($text) : $text;
}

my %escape = (SP => '@', BP => '*', RF => '&', LT => '<', GT => '>', LP => '(', RP => ')', C => ',');

# A name of Rust's older scheme, which ends in a hash, without its escapes: $LT$ becomes <, and ..
# becomes ::. The hash stays; Names::shorten removes it.
sub of_rust {
	my ($text) = @_;
	$text =~ s/(^|::|\.\.)_(?=\$)/$1/g; # the _ is there for linkers
	$text =~ s/(\.\.)|\$(SP|BP|RF|LT|GT|LP|RP|C)\$/defined $1 ? '::' : $escape{$2}/ge;
	return unescaped($text);
}

# The same name with the letters of its escapes, in UTF-8: $ue9$ is the letter of that number.
sub unescaped {
	my ($text) = @_;
	$text =~ s/(\$u([0-9a-f]{2,6})\$)/code_point(hex $2) \/\/ $1/ge;
	return $text;
}

# A code point in UTF-8; undef if it is none, or a control character.
sub code_point {
	my ($number) = @_;
	return undef if $number < 0x20 || $number >= 0x7f && $number < 0xa0
	    || $number >= 0xd800 && $number < 0xe000 || $number > 0x10ffff;
	my $letter = chr $number;
	utf8::encode($letter);
	return $letter;
}

# If the name goes on with a pattern, moves behind it and returns true.
sub take {
	my ($pattern) = @_;
	return $in =~ /\G$pattern/gc;
}

# Dies, so that short() returns undef.
sub unknown { die "not understood\n" }

# A function or variable; for a thunk the function it calls, for what makes a thread's variable the
# variable. Parameters are read only where more
# follows, as in another name ($is_inner).
sub encoding {
	my ($is_inner) = @_;
	take(qr{GTt|T[HW]|Tc?(?:[hv](?:n?\d+_)+)+});
	my $text = name();
	if ($is_inner) {
		type() until take(qr/E/);
	}
	return $text;
}

# A name of any kind, perhaps with template arguments, which are left out.
sub name {
	return nested() if take(qr/N/);
	return local_name() if take(qr/Z/);
	my $is_known = take(qr/S(?=[0-9A-Z_])/);
	my $text = $is_known ? substitution() : (take(qr/St/) ? 'std::' : '') . unqualified('');
	if ($in =~ /\GI/) {
		push @known, $text unless $is_known;
		arguments();
	}
	return $text;
}

# N..E: a name with its namespaces and classes.
sub nested {
	take(qr/H|[rVK]*[RO]?/); # H: its first parameter is the object
	my $text = '';
	until (take(qr/E/)) {
		if ($in =~ /\GI/) {
			arguments();
		} elsif (take(qr/S/)) {
			$text = $in =~ /\G[a-z]/ ? $standard{ letter() } // unknown() : substitution();
			next;
		} elsif (take(qr/T(\d*)_/)) {
			$text = 'auto';
		} elsif ($in =~ /\GD[tT]/) {
			unknown();
		} else {
			$text .= (length $text ? '::' : '') . unqualified($text);
		}
		push @known, $text unless $in =~ /\GE/;
	}
	return $text;
}

# One letter.
sub letter {
	$in =~ /\G(.)/gcs or unknown();
	return $1;
}

# S_, S0_ and so on, behind the S: the text that was remembered.
sub substitution {
	$in =~ /\G([0-9A-Z]*)_/gc or unknown();
	my $index = 0;
	if (length $1) {
		$index = $index * 36 + (/\d/ ? $_ : ord($_) - 55) for split //, $1;
		$index++;
	}
	my $text = $known[$index] // unknown();
	return length $text <= LONGEST ? $text : unknown();
}

# Z..E: the function, then what lies in it, as f::x.
sub local_name {
	my $text = encoding(1);
	if (take(qr/s/)) {
		take(qr/_\d|__\d+_/);
		return "${text}::{string}";
	}
	take(qr/d\d*_/);
	$text .= '::' . name();
	take(qr/_\d(?!\d*_)|__\d+_/);
	return $text;
}

# One name, operator, constructor, destructor, lambda or unnamed type, with its module; $prefix is
# the class that it stands in, for constructors and destructors.
sub unqualified {
	my ($prefix) = @_;
	my $module = module();
	take(qr/[LF]|M(?=U)/);
	my $text;
	if ($in =~ /\G(\d+)/gc) {
		$text = source_name($1);
	} elsif ($in =~ /\GC(I?)[1-5]|\G(D)[0-5]/gc) {
		my ($inherits, $mark) = ($1, defined $2 ? '~' : '');
		my $class = $inherits ? type() : $prefix; # of a base, whose name c++filt shows too
		$text = $mark . ($class =~ /([\w\$]+)(?:::\{[^}]*\})*$|^(\{[^}]*\})$/ ? $1 // $2 : unknown());
	} elsif (take(qr/Ul/)) {
		parameter() while $in =~ /\GT[yntpk]/;
		type() until take(qr/E/);
		$text = '{lambda#' . ordinal() . '}';
	} elsif (take(qr/Ut/)) {
		$text = '{unnamed#' . ordinal() . '}';
	} else {
		$text = operator();
	}
	source_name($1) while $in =~ /\GB(\d+)/gc; # ABI tags
	return $text . $module;
}

# The module that a name belongs to, as "@module.part:partition"; '' if none is told. One that is
# told as a substitution is not understood.
sub module {
	my $text = '';
	while ($in =~ /\GW(P?)(\d+)/gc) {
		$text .= (length $1 ? ':' : length $text ? '.' : '') . source_name($2);
		push @known, $text;
	}
	return length $text ? "\@$text" : '';
}

# A declared template parameter: a type, a value, a template, a pack, or one of a concept.
sub parameter {
	$in =~ /\GT([yntpk])/gc or unknown();
	my $kind = $1;
	return type() if $kind eq 'n';
	return class_type() if $kind eq 'k';
	return parameter() if $kind eq 'p';
	until ($kind eq 'y' || take(qr/E/)) { parameter() }
}

# An identifier of this length.
sub source_name {
	my ($length) = @_;
	my $at = pos $in;
	unknown() if $at + $length > length $in;
	my $text = substr $in, $at, $length;
	pos($in) = $at + $length;
	return $text =~ /^_GLOBAL_[._\$]N/ ? '(anonymous namespace)' : $text;
}

# The number of a lambda or unnamed type, from 1: "_" is 1, "0_" is 2.
sub ordinal {
	$in =~ /\G(\d*)_/gc or unknown();
	return length $1 ? $1 + 2 : 1;
}

# An operator, as "operator+".
sub operator {
	return 'operator ' . type() if take(qr/cv/);
	return 'operator"" ' . source_name($1) if $in =~ /\Gli(\d+)/gc;
	$in =~ /\G([a-z][a-zA-Z])/gc or unknown();
	return 'operator' . ($operator{$1} // unknown());
}

# I..E, J..E: template arguments, without text.
sub arguments {
	take(qr/[IJ]/) or unknown();
	argument() until take(qr/E/);
}

# One template argument, without text. A pack may begin with I, as older compilers write it.
sub argument {
	return arguments() if $in =~ /\G[IJ]/;
	parameter() if $in =~ /\GT[yntpk]/; # which this is the value of
	if (take(qr/L_?Z/)) {
		return encoding(1);
	}
	if (take(qr/L/)) {
		type();
		return take(qr/[^E]*E/) || unknown();
	}
	if (take(qr/Xad(?=L_?Z)/)) { # the address of a function
		argument();
		return take(qr/E/) || unknown();
	}
	if (take(qr/X(?=tl)/)) { # an object of a class
		braced();
		return take(qr/E/) || unknown();
	}
	return take(qr/XT\d*_E/) || unknown() if $in =~ /\GX/; # of expressions, a parameter alone
	return type();
}

# TYPE{literal, TYPE{...}}, without text.
sub braced {
	take(qr/tl/) or unknown();
	type();
	until (take(qr/E/)) { $in =~ /\Gtl/ ? braced() : $in =~ /\GL/ ? argument() : unknown() }
}

# A type; only conversion operators need its text. That of a template parameter is "auto", that of a
# function "function".
sub type {
	my $text;
	if ($in =~ /\G([a-z])/gc) {
		return $builtin{$1} if $builtin{$1};
		$text = $1 eq 'u' && $in =~ /\G(\d+)/gc ? source_name($1) : unknown();
	} elsif ($in =~ /\G(?:[rVK]+|([PRO])|[CG])/gc) {
		my $mark = !defined $1 ? '' : $1 eq 'P' ? '*' : $1 eq 'R' ? '&' : '&&';
		$text = type() . $mark;
	} elsif (take(qr/(?:Do)?FY?/)) {
		until (take(qr/[RO]?E/)) { type() }
		$text = 'function';
	} elsif (take(qr/A\d*_/) || take(qr/Dp/) || take(qr/Dv\d+_/)) {
		$text = type();
	} elsif (take(qr/M/)) {
		type();
		$text = type();
	} elsif ($in =~ /\GD/) {
		take(qr/D(?:[defhisuacn]|F\d+_?b?)/) or unknown();
		return 'auto';
	} elsif (take(qr/U(?=\d)/)) {
		$in =~ /\G(\d+)/gc && source_name($1);
		$text = type();
	} else {
		return class_type();
	}
	push @known, $text;
	return $text;
}

# A class, a template parameter or a substitution, perhaps with arguments.
sub class_type {
	my $text;
	if (take(qr/T(?:L\d*_)?\d*_/)) {
		push @known, $text = 'auto';
	} elsif (take(qr/S(?=[0-9A-Z_])/)) {
		$text = substitution();
	} elsif ($in =~ /\GS([abisod])/gc) {
		$text = $standard{$1};
	} else {
		take(qr/T[sue]/);
		push @known, $text = name();
		return $text;
	}
	if ($in =~ /\GI/) {
		arguments();
		push @known, $text;
	}
	return $text;
}
