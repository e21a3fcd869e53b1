"""Languages by their ISO 639 codes: a two-letter code where there is one, whichever code was given."""

from __future__ import annotations

from functools import lru_cache

from ..errors import UsageError

# ISO 639-1 with 639-3, and 639-2/B where that is another
_CODES = """
aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak be:bel bg:bul bh:bih bi:bis
bm:bam bn:ben bo:bod,tib br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre cs:ces,cze cu:chu cv:chv cy:cym,wel da:dan
de:deu,ger dv:div dz:dzo ee:ewe el:ell,gre en:eng eo:epo es:spa et:est eu:eus,baq fa:fas,per ff:ful fi:fin fj:fij fo:fao
fr:fra,fre fy:fry ga:gle gd:gla gl:glg gn:grn gu:guj gv:glv ha:hau he:heb hi:hin ho:hmo hr:hrv ht:hat hu:hun hy:hye,arm
hz:her ia:ina id:ind ie:ile ig:ibo ii:iii ik:ipk io:ido is:isl,ice it:ita iu:iku ja:jpn jv:jav ka:kat,geo kg:kon ki:kik
kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor kr:kau ks:kas ku:kur kv:kom kw:cor ky:kir la:lat lb:ltz lg:lug li:lim ln:lin
lo:lao lt:lit lu:lub lv:lav mg:mlg mh:mah mi:mri,mao mk:mkd,mac ml:mal mn:mon mr:mar ms:msa,may mt:mlt my:mya,bur na:nau
nb:nob nd:nde ne:nep ng:ndo nl:nld,dut nn:nno no:nor nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm or:ori os:oss pa:pan
pi:pli pl:pol ps:pus pt:por qu:que rm:roh rn:run ro:ron,rum ru:rus rw:kin sa:san sc:srd sd:snd se:sme sg:sag si:sin
sk:slk,slo sl:slv sm:smo sn:sna so:som sq:sqi,alb sr:srp ss:ssw st:sot su:sun sv:swe sw:swa ta:tam te:tel tg:tgk th:tha
ti:tir tk:tuk tl:tgl tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah ug:uig uk:ukr ur:urd uz:uzb ve:ven vi:vie vo:vol
wa:wln wo:wol xh:xho yi:yid yo:yor za:zha zh:zho,chi zu:zul
"""
# languages of a macrolanguage, which test sets such as FLORES-200 name, and codes of former editions
_OTHERS = """
zh:cmn,yue,wuu,hak,gan,hsn,nan,lzh ar:arb,ary,arz,apc,ajp,acm,acq,aeb,ars az:azb,azj et:ekk fa:pes,prs he:iw id:in
ku:kmr lv:lvs mg:plt mn:khk ms:zsm ne:npi om:gaz or:ory ps:pbt qu:quy ro:mo sq:als sr:sh,hbs sw:swh uz:uzn yi:ydd,ji
jv:jw tl:fil ay:ayr gn:gug ff:fuv kr:knc
"""
# without a two-letter code; all but Shan are written with spaces between words
_THREE_LETTERS = """
ace ast awa ban bem bho bjn bug ceb cjk ckb crh dik dyu fon fur gsw haw hmn hne hsb ilo kab kac kam kbp kea kmb lij lmo
ltg lua luo lus mag mai min mni mos nds nso nus pag pap sat scn shn szl taq tpi tum tzm umb vec war
"""


@lru_cache(maxsize=1)
def _known() -> dict[str, str]:
    """{every code known here: the one used for it}."""
    known = {code: code for code in _THREE_LETTERS.split()}
    for entry in (_CODES + _OTHERS).split():
        code, _, others = entry.partition(":")
        known |= dict.fromkeys([code, *others.split(",")], code)
    return known


def base_language(language: str) -> str:
    """`zh` of `zh-CN`, `zho_Hans` or `cmn`: the ISO 639-1 code, or a 639-3 one where there is no other.

    Raises UsageError for anything else: a code that no table knows would be scored by the rules of no language.
    """
    code = _known().get(str(language).lower().replace("_", "-").split("-")[0])
    if code is None:
        raise UsageError(
            f"language must be a code such as 'en' or 'zh', not {language!r}; ISO 639 codes of three letters serve too"
        )
    return code
