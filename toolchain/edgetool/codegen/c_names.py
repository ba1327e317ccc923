"""Names, comments and macros in C, from text that may be hostile: each result depends only on its own text."""

from __future__ import annotations

import hashlib
import re

# Words that cannot be identifiers in C or C++: ISO C99, C11, C17 and C23 (6.4.1 keywords, 7.1.3 reserved
# identifiers, 7.31 future library directions for macros), ISO C++11 to C++20 ([lex.key], [lex.name]), and what common
# compilers define without a leading underscore. _PORTABLE excludes names with a leading or double underscore, which are
# all reserved.
_C_KEYWORDS = """
alignas alignof asm auto bool break case char const constexpr continue default do double else enum extern
false float for fortran goto if inline int long nullptr register restrict return short signed sizeof static
static_assert struct switch thread_local true typedef typeof typeof_unqual union unsigned void volatile while
"""

_CPP_KEYWORDS = """
and and_eq atomic_cancel atomic_commit atomic_noexcept bitand bitor catch char16_t char32_t char8_t class
co_await co_return co_yield compl concept const_cast consteval constinit decltype delete dynamic_cast explicit
export final friend import module mutable namespace new noexcept not not_eq operator or or_eq override private
protected public reflexpr reinterpret_cast requires static_cast std synchronized template this throw try typeid
typename using virtual wchar_t xor xor_eq
"""

_COMPILER_WORDS = """
cdecl defined far fastcall huge i386 interrupt linux mips near pascal sparc stdcall sun unix vax
"""

_MACROS = """
BUFSIZ CHAR_BIT CHAR_MAX CHAR_MIN CHAR_WIDTH CLOCKS_PER_SEC CMPLX CMPLXF CMPLXL DECIMAL_DIG DEC_EVAL_METHOD
DEC_INFINITY DEC_NAN EOF EXIT_FAILURE EXIT_SUCCESS FILENAME_MAX FOPEN_MAX HUGE_VAL HUGE_VALF HUGE_VALL I
INFINITY L_tmpnam MATH_ERREXCEPT MATH_ERRNO MB_CUR_MAX MB_LEN_MAX NAN NDEBUG NULL ONCE_FLAG_INIT RAND_MAX
SEEK_CUR SEEK_END SEEK_SET TMP_MAX TSS_DTOR_ITERATIONS WEOF assert ckd_add ckd_mul ckd_sub complex errno
fpclassify imaginary isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnan isnormal
isunordered kill_dependency math_errhandling noreturn offsetof setjmp signbit stderr stdin stdout unreachable
va_arg va_copy va_end va_start
"""

_ERRORS_AND_SIGNALS = """
E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EADV EAFNOSUPPORT EAGAIN EALREADY EBADE EBADF EBADFD EBADMSG EBADR
EBADRQC EBADSLT EBFONT EBUSY ECANCELED ECHILD ECHRNG ECOMM ECONNABORTED ECONNREFUSED ECONNRESET EDEADLK
EDEADLOCK EDESTADDRREQ EDOM EDOTDOT EDQUOT EEXIST EFAULT EFBIG EHOSTDOWN EHOSTUNREACH EHWPOISON EIDRM EILSEQ
EINPROGRESS EINTR EINVAL EIO EISCONN EISDIR EISNAM EKEYEXPIRED EKEYREJECTED EKEYREVOKED EL2HLT EL2NSYNC
EL3HLT EL3RST ELIBACC ELIBBAD ELIBEXEC ELIBMAX ELIBSCN ELNRNG ELOOP EMEDIUMTYPE EMFILE EMLINK EMSGSIZE
EMULTIHOP ENAMETOOLONG ENAVAIL ENETDOWN ENETRESET ENETUNREACH ENFILE ENOANO ENOBUFS ENOCSI ENODATA ENODEV
ENOENT ENOEXEC ENOKEY ENOLCK ENOLINK ENOMEDIUM ENOMEM ENOMSG ENONET ENOPKG ENOPROTOOPT ENOSPC ENOSR ENOSTR
ENOSYS ENOTBLK ENOTCONN ENOTDIR ENOTEMPTY ENOTNAM ENOTRECOVERABLE ENOTSOCK ENOTSUP ENOTTY ENOTUNIQ ENXIO
EOPNOTSUPP EOVERFLOW EOWNERDEAD EPERM EPFNOSUPPORT EPIPE EPROTO EPROTONOSUPPORT EPROTOTYPE ERANGE EREMCHG
EREMOTE EREMOTEIO ERESTART ERFKILL EROFS ESHUTDOWN ESOCKTNOSUPPORT ESPIPE ESRCH ESRMNT ESTALE ESTRPIPE ETIME
ETIMEDOUT ETOOMANYREFS ETXTBSY EUCLEAN EUNATCH EUSERS EWOULDBLOCK EXDEV EXFULL
SIGABRT SIGALRM SIGBUS SIGCHLD SIGCLD SIGCONT SIGFPE SIGHUP SIGILL SIGINT SIGIO SIGIOT SIGKILL SIGPIPE
SIGPOLL SIGPROF SIGPWR SIGQUIT SIGRTMAX SIGRTMIN SIGSEGV SIGSTKFLT SIGSTKSZ SIGSTOP SIGSYS SIGTERM SIGTRAP
SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ
"""

_TYPES = """
FILE cnd_t clock_t constraint_handler_t div_t double_t errno_t femode_t fenv_t fexcept_t float_t fpos_t imaxdiv_t
jmp_buf lconv ldiv_t lldiv_t max_align_t mbstate_t mtx_t nullptr_t once_flag ptrdiff_t rsize_t sig_atomic_t
size_t ssize_t thrd_start_t thrd_t time_t timespec tm tss_dtor_t tss_t va_list wctrans_t wctype_t wint_t
"""

_FUNCTIONS = """
main abort abs acos acosh aligned_alloc asctime asin asinh at_quick_exit atan atan2 atanh atexit atof atoi
atol atoll bsearch btowc cabs cacos cacosh calloc carg casin casinh catan catanh cbrt ccos ccosh ceil cexp
cimag clearerr clock clog conj copysign cos cosh cpow cproj creal csin csinh csqrt ctan ctanh ctime dadd ddiv
dfma difftime div dmul dsqrt dsub erf erfc exit exp exp10 exp2 expm1 fabs fadd fclose fdim fdiv feclearexcept
fegetenv fegetexceptflag fegetround feholdexcept feof feraiseexcept ferror fesetenv fesetexceptflag
fesetround fetestexcept feupdateenv fflush ffma fgetc fgetpos fgets fgetwc fgetws floor fma fmax fmaximum
fmaximum_mag fmaximum_mag_num fmaximum_num fmin fminimum fminimum_mag fminimum_mag_num fminimum_num fmod fmul
fopen fprintf fputc fputs fputwc fputws fread free freopen frexp fromfp fromfpx fscanf fseek fsetpos fsqrt
fsub ftell fwide fwprintf fwrite fwscanf getc getchar getenv gets getwc getwchar gmtime gmtime_r hypot ilogb
imaxabs imaxdiv isalnum isalpha isblank iscanonical iscntrl isdigit iseqsig isgraph islower isprint ispunct
issignaling isspace issubnormal isupper iswalnum iswalpha iswblank iswcntrl iswctype iswdigit iswgraph
iswlower iswprint iswpunct iswspace iswupper iswxdigit isxdigit iszero labs ldexp ldiv lgamma llabs lldiv
llogb llrint llround localeconv localtime localtime_r log log10 log1p log2 logb longjmp lrint lround malloc
mblen mbrlen mbrtoc16 mbrtoc32 mbrtowc mbsinit mbsrtowcs mbstowcs mbtowc memalignment memccpy memchr memcmp
memcpy memmove memset mktime modf nan nearbyint nextafter nextdown nexttoward nextup perror pow printf putc
putchar puts putwc putwchar qsort quick_exit raise rand realloc remainder remove remquo rename rewind rint
round roundeven scalbln scalbn scanf setbuf setlocale setvbuf signal sin sinh snprintf sprintf sqrt srand
sscanf strcat strchr strcmp strcoll strcpy strcspn strdup strerror strftime strlen strncat strncmp strncpy
strndup strpbrk strrchr strspn strstr strtod strtof strtoimax strtok strtol strtold strtoll strtoul strtoull
strtoumax strxfrm swprintf swscanf system tan tanh tgamma time timegm timespec_get tmpfile tmpnam tolower
toupper towctrans towlower towupper trunc ufromfp ufromfpx ungetc ungetwc vfprintf vfscanf vfwprintf vfwscanf
vprintf vscanf vsnprintf vsprintf vsscanf vswprintf vswscanf vwprintf vwscanf wcrtomb wcscat wcschr wcscmp
wcscoll wcscpy wcscspn wcsftime wcslen wcsncat wcsncmp wcsncpy wcspbrk wcsrchr wcsrtombs wcsspn wcsstr wcstod
wcstof wcstoimax wcstok wcstol wcstold wcstoll wcstombs wcstoul wcstoull wcstoumax wcsxfrm wctob wctomb
wctrans wctype wmemchr wmemcmp wmemcpy wmemmove wmemset wprintf wscanf
"""

RESERVED_WORDS = frozenset(
    " ".join((_C_KEYWORDS, _CPP_KEYWORDS, _COMPILER_WORDS, _MACROS, _ERRORS_AND_SIGNALS, _TYPES, _FUNCTIONS)).split()
)

# Families of macros and types in the standard headers: limits, formats, floating point, errors, signals, atomics.
_FAMILIES = re.compile(
    r"U?(?:INT|CHAR)\w*_(?:MAX|MIN|WIDTH|C)|U?INT(?:8|16|32|64|MAX)_C"
    r"|(?:SCHAR|U?SHRT|U?LONG|U?LLONG|BOOL|PTRDIFF|SIZE|RSIZE|WCHAR|WINT|SIG_ATOMIC)_(?:MAX|MIN|WIDTH)"
    r"|u?int(?:8|16|32|64|max|ptr|_fast\d+|_least\d+)_t"
    r"|(?:PRI|SCN)[bBdiouxX](?:8|16|32|64|FAST\d+|LEAST\d+|MAX|PTR)"
    r"|(?:FLT|DBL|LDBL|DEC32|DEC64|DEC128)_(?:DIG|DECIMAL_DIG|EPSILON|EVAL_METHOD|HAS_SUBNORM|IS_IEC_60559"
    r"|MANT_DIG|MAX|MAX_10_EXP|MAX_EXP|MIN|MIN_10_EXP|MIN_EXP|NORM_MAX|RADIX|ROUNDS|SNAN|SUBNORMAL_MIN|TRUE_MIN)"
    r"|FE_(?:ALL_EXCEPT|DIVBYZERO|DFL_ENV|DFL_MODE|DOWNWARD|INEXACT|INVALID|OVERFLOW|TONEAREST|TONEARESTFROMZERO"
    r"|TOWARDZERO|UNDERFLOW|UPWARD)"
    r"|FP_(?:INT_\w+|LLOGB0|LLOGBNAN|FAST_\w+|ILOGB0|ILOGBNAN|INFINITE|NAN|NORMAL|SUBNORMAL|ZERO)"
    r"|LC_(?:ADDRESS|ALL|COLLATE|CTYPE|IDENTIFICATION|MEASUREMENT|MESSAGES|MONETARY|NAME|NUMERIC|PAPER"
    r"|TELEPHONE|TIME)"
    r"|SIG_(?:DFL|ERR|HOLD|IGN)|TIME_UTC"
    r"|ATOMIC_(?:FLAG_INIT|VAR_INIT|\w+_LOCK_FREE)|(?:atomic|memory_order)_\w+"
    r"|cnd_(?:broadcast|destroy|init|signal|timedwait|wait)|mtx_(?:destroy|init|lock|plain|recursive|timed"
    r"|timedlock|trylock|unlock)|tss_(?:create|delete|get|set)"
    r"|thrd_(?:busy|create|current|detach|equal|error|exit|join|nomem|sleep|success|timedout|yield)",
    re.ASCII,
)


def is_reserved(word: str) -> bool:
    """Return whether C, C++ or a common compiler reserves this word."""
    return word in RESERVED_WORDS or _FAMILIES.fullmatch(word) is not None


# Names that NAME.h must not have, because its directory is searched before the system's directories: with a string.h
# there, code that includes <string.h> no longer compiles. These are the headers of ISO C99 to C23, of POSIX, and of
# glibc, newlib, GCC and CMSIS at the top of a search path; and the devices of Windows, where no file can have their
# names, with any extension.
_STANDARD = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
stdbit stdbool stdckdint stddef stdint stdio stdlib stdmchar stdnoreturn string tgmath threads time uchar wchar wctype
"""
_POSIX = """
aio cpio devctl dirent dlfcn endian fcntl fmtmsg fnmatch ftw glob grp iconv langinfo libgen libintl monetary mqueue
ndbm netdb nl_types poll pthread pwd regex sched search semaphore spawn strings stropts syslog tar termios trace ulimit
unistd utime utmpx varargs wordexp
"""
_SYSTEMS = """
alloca ar argp argz byteswap conio crypt direct elf envlock envz err error execinfo fastmath features fpu_control fstab
fts getopt gshadow ieee754 ieeefp ifaddrs io lastlog link malloc mcheck memory mntent newlib nss obstack paths printf
process pty reent regdef regexp resolv sgtty shadow share stab stdfix strsafe syscall sysexits syslimits termio ttyent
ucontext unctrl unwind utmp values wait windows winsock
"""
_PROCESSORS = """
arm_acle arm_bf16 arm_cde arm_cmse arm_const_structs arm_fp16 arm_helium_utils arm_math arm_mve arm_mve_types arm_neon
arm_nn_math_types arm_nn_tables arm_nn_types arm_nnfunctions arm_nnsupportfunctions cmsis_armcc cmsis_armclang
cmsis_compiler cmsis_gcc cmsis_iccarm cmsis_version core_cm0 core_cm0plus core_cm3 core_cm33 core_cm4 core_cm55 core_cm7
core_cm85 cpuid immintrin mm_malloc mmintrin xmmintrin
"""
_DEVICES = """
aux con nul prn com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9
"""

SYSTEM_NAMES = frozenset(" ".join((_STANDARD, _POSIX, _SYSTEMS, _PROCESSORS, _DEVICES)).split())


def is_system_name(name: str) -> bool:
    """Return whether NAME.h is a header of the system, or a device, on a file system that ignores case."""
    return name.lower() in SYSTEM_NAMES


def comment(lines: list[str]) -> str:
    """Return a comment of these lines, which must be harmless: see comment_text."""
    return "/*\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def defines(*macros: tuple[str, int | str]) -> str:
    """Return one #define for each macro and its value."""
    return "".join(f"#define {name} {value}\n" for name, value in macros)


MAX_LENGTH = 31  # significant characters of an external name, ISO C99 5.2.4.1
HASH_DIGITS = 8
COMMENT_LENGTH = 120

# Letters, digits and single inner underscores: a double one is reserved in C++, and a trailing one would
# make a double one when a suffix is added.
_PORTABLE = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*", re.ASCII)
_NOT_IN_A_SLUG = re.compile(r"[^A-Za-z0-9]+")
_NOT_IN_A_COMMENT = re.compile(r'[^ -~]|[\\?"]')
_COMMENT_MARK = re.compile(r"(?<=/)(?=[*/])|(?<=\*)(?=/)")


def is_portable(name: str) -> bool:
    """Return whether the name can be a C and C++ identifier, alone and with a suffix, wherever it is used."""
    return len(name) <= MAX_LENGTH and _PORTABLE.fullmatch(name) is not None and not is_reserved(name)


def identifier(name: str, prefix: str) -> str:
    """Return a C identifier of at most 31 characters for `name`.

    A portable name is returned unchanged; any other becomes prefix, slug and 8 hex digits of its SHA-256, so applying
    it twice changes nothing.

    Raises:
        ValueError: The prefix is too long or not portable.
    """
    return name if is_portable(name) else _hashed(name, prefix)


def macro_name(name: str, prefix: str) -> str:
    """Return the same for a macro, in capitals; the result is the same for names that differ only in case."""
    macro = identifier(name, prefix).upper()
    return _hashed(name, prefix).upper() if is_reserved(macro) else macro


def model_identifier(name: str) -> str:
    """Return NAME in NAME.h and NAME_model: an identifier that is also not the name of a header of the system."""
    return _hashed(name, "model") if is_system_name(name) else identifier(name, "model")


def model_macro(name: str) -> str:
    """Return the prefix of a model's macros: NAME in NAME_ARENA_BYTES."""
    return macro_name(name, "model")


def model_names(name: str) -> dict[str, str]:
    """Return the model's identifier and the prefix of its macros, by their placeholders in templates."""
    return {"my_model": model_identifier(name), "MY_MODEL": model_macro(name)}


def comment_text(text: str, limit: int = COMMENT_LENGTH) -> str:
    """Return the text for the inside of a comment: printable ASCII that cannot end, open or splice one.

    Other characters, backslashes, question marks and double quotes become <U+XXXX>, and comment marks are split by a
    space. Text longer than `limit` characters is cut and ends in "...".
    """
    plain = _NOT_IN_A_COMMENT.sub(lambda match: f"<U+{ord(match[0]):04X}>", text[: limit + 1])
    split = _COMMENT_MARK.sub(" ", plain)
    return split if len(split) <= limit else split[: limit - 3] + "..."


def _hashed(name: str, prefix: str) -> str:
    room = MAX_LENGTH - HASH_DIGITS - len(prefix) - 2
    if room < 0 or _PORTABLE.fullmatch(prefix) is None:
        raise ValueError(f"{prefix!r} cannot be the prefix of an identifier")
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]
    slug = _NOT_IN_A_SLUG.sub("_", name).strip("_")[:room].rstrip("_")
    return "_".join(part for part in (prefix, slug, digest) if part)
